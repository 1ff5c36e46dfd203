# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The directive ``command``: the help of ``tflm-zo COMMAND``, with options as targets of links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tflm_zo.cli.app import app

GROUP: Any = typer.main.get_command(app)


def described(command: Any, context: Any) -> Iterator[str]:
    """Converts a command's help to Markdown: options in their groups, in the order of ``--help``."""
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
    yield command.help
    if example := (command.epilog or "").removeprefix("Example: "):
        yield f"```sh\n{example}\n```"
    yield f"```{{program}} {context.command_path}\n```"
    groups: dict[str | None, list[str]] = {}
    for parameter in command.get_params(context):
        if (record := parameter.get_help_record(context)) is None:
            continue
        name, text = record
        is_option = parameter.param_type_name == "option"
        # In older releases of typer, the option for help is Click's, which knows no panels.
        kind = (getattr(parameter, "rich_help_panel", None) or "Options") if is_option else "Arguments"
        entry = f"```{{option}} {name}\n{text}\n```" if is_option else f"* `{name}`: {text}"
        groups.setdefault(kind, []).append(entry)
    for kind, entries in groups.items():
        yield f"**{kind}**"
        yield from entries


class Command(SphinxDirective):
    """The help of a command."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the nodes that replace the directive."""
        name = self.arguments[0]
        command = GROUP.commands[name]
        outer = GROUP.context_class(GROUP, info_name="tflm-zo")
        context = command.context_class(command, info_name=name, parent=outer)
        return self.parse_text_to_nodes("\n\n".join(described(command, context)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directive. Sphinx calls it."""
    app.add_directive("command", Command)
    return {"parallel_read_safe": True}
