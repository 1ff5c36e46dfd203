# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The package's names of settings as the command line writes them: ``--headroom 2`` for ``headroom=2``."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from typer.models import OptionInfo

from ..training.setting_names import every_name

__all__ = ["OF_INJECT", "in_option_syntax", "options_of"]

#: Settings of inject that ``--set`` gives a run of a plain model, too.
OF_INJECT: Final = ("loss", "nodes", "signature", "update_bits", "sparse", "sparse_seed", "multipliers")

# Settings that a command's option has another name for: the first that it has.
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "cuts": ("cut",),
    "blocks": ("choose_block", "block"),
}
_VALUE: Final = r"""(?:"([^"]*)"|'([^']*)'|`([^`]*)`|([^\s,;:)]+))"""


def options_of(command: Callable[..., Any]) -> dict[str, str]:
    """Options of a command by the name of their setting, which is that of their parameter."""
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


def in_option_syntax(message: str, own: Mapping[str, str], everywhere: Mapping[str, str]) -> str:
    """A message of the package in the syntax of the command line.

    Args:
        message: message of the package, for people.
        own: options of the command that says it: its settings may stand for themselves, before a colon.
        everywhere: options of all commands: what else is written like Python, ``name=value`` or a name that
            has an underscore.
    """
    known = {**everywhere, **own}

    def assignment(found: re.Match[str]) -> str:
        before, name, *values = found.groups(default="")
        option, value = (everywhere if before else known).get(name), "".join(values)
        if option is None:
            return found[0]
        if value in ("True", "False") and not option.startswith("--set "):
            return before + (option if value == "True" else "--no-" + option[2:])
        return f"{before}{option}{'=' if option.startswith('--set ') else ' '}{value}"

    def heading(found: re.Match[str]) -> str:
        names = found[1].split(", ")
        return ", ".join(own[n] for n in names) if all(n in own for n in names) else found[0]

    def name(found: re.Match[str]) -> str:
        return known.get(found[0], found[0])

    # Whatever the command is, "inject with" has inject's own options behind it.
    message = re.sub(rf"(inject with )?(?<![\w./`'\"-])([a-z]\w*)={_VALUE}", assignment, message)
    message = re.sub(r"^([\w.]+(?:, [\w.]+)*)(?=: | would have no effect: )", heading, message)
    return re.sub(r"(?<![\w./`'\"-])(?:[a-z]+\.)?[a-z]+(?:_[a-z]+)+(?![\w./`'\"-])", name, message)
