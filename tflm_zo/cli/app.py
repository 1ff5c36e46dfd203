"""The application: finds the commands and runs them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Annotated

import typer

from .._version import __version__
from . import commands
from .failures import one_line_errors, show_tracebacks

# The order of --help, that of a model's life; commands that are not named here come after.
_ORDER = (
    "demo convert inspect plan drift recalibrate inject train evaluate calibrate "
    "replay report verify export firmware collect deploy gateway"
).split()

app = typer.Typer(
    name="tflm-zo",
    help="Training on microcontrollers with forward passes only: int8 .tflite models that infer and train.",
    epilog="Example: tflm-zo inject model.tflite -o model.zo.tflite --batch 8",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tflm-zo {__version__}")
        raise typer.Exit()


@app.callback()
def _global_options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    show_tracebacks(debug)


def _paragraphs(function: Callable[..., None]) -> str:
    """Wraps a docstring at the width of the terminal."""
    text = inspect.getdoc(function) or ""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


_names = sorted(module.name for module in pkgutil.iter_modules(commands.__path__))
for _name in sorted(_names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER)):
    _module = importlib.import_module(f"{commands.__name__}.{_name}")
    _function = getattr(_module, _name)
    app.command(_name.replace("_", "-"), help=_paragraphs(_function), epilog=f"Example: {_module.EXAMPLE}")(
        one_line_errors(_function)
    )


def main() -> None:
    """Runs ``tflm-zo``."""
    app()
