"""The package's names of settings as the command line writes them: ``--headroom 2`` for ``headroom=2``."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from typer.models import OptionInfo

from ..io.errors import Shown
from ..training.setting_texts import every_name, written

#: Settings of inject that ``--set`` gives a run of a plain model, too.
OF_INJECT: Final = ("loss", "loss_over", "nodes", "signature", "update_bits", "multipliers")

# Settings that a command's option has another name for: the first that it has.
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "cuts": ("cut",),
    "blocks": ("block",),
    "replace": ("force",),
    "schedule.final": ("final_learning_rate",),
}


def options_of(command: Callable[..., Any]) -> dict[str, str]:
    """Returns the options of a command by setting; a setting has the name of the parameter."""
    found: dict[str, str] = {}
    for name, hint in typing.get_type_hints(command, include_extras=True).items():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                # In an annotation the first name lies where otherwise the default does.
                names = [info.default, *(info.param_decls or ())]
                long = [n.split("/")[0] for n in names if isinstance(n, str) and n.startswith("--")]
                found[name] = long[0] if long else "--" + name.replace("_", "-")
    if any(option == "--set" for option in found.values()):
        for name in (*every_name(), *OF_INJECT):
            found.setdefault(name, "--set " + name.replace("_", "-"))
    for setting, others in _OTHER_NAMES.items():
        for name in others:
            if setting not in found and name in found:
                found[setting] = found[name]
    return found


def in_option_syntax(own: Mapping[str, str], of_inject: Mapping[str, str]) -> Shown:
    """Returns a function that writes a setting for errors, by the options of the command itself and of inject."""

    def shown(name: str, value: object, is_of_inject: bool) -> str:
        option = (of_inject if is_of_inject else own).get(name, name)
        if value is ...:
            return f"`{option}`"
        if isinstance(value, bool) and not option.startswith("--set "):
            return f"`{option if value else '--no-' + option[2:]}`"
        return f"`{option}{'=' if option.startswith('--set ') else ' '}{written(value)}`"

    return shown
