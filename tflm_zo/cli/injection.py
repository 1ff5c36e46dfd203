"""Options of plain models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..converters import Model, read_metadata
from ..converters.selections import Random, Sparse, Threshold, TopK
from ..training import SettingsError
from ..training.setting_texts import parse_layers
from .failures import note


def say_loss_output(zo: Model, chosen: int | str | None) -> None:
    """Says which of several outputs the loss was given to, unless one was chosen."""
    metadata = read_metadata(zo)
    names, loss = metadata.original.outputs, metadata.loss
    if chosen is None and loss is not None and len(names) > 1:
        note(
            f"the loss belongs to output {loss.output} of {len(names)}, `{names[loss.output]}`; "
            "--loss-output chooses another"
        )


def parse_loss_output(given: str | None) -> int | str | None:
    """Reads ``--loss-output``: a number is one, anything else a name."""
    return int(given) if given is not None and given.isascii() and given.isdecimal() else given


def split_names(given: Sequence[str] | None) -> list[str]:
    """Returns the names of a repeatable option, which also separates them by commas."""
    return [name.strip() for item in given or () for name in item.split(",")]


def parse_selection(setting: str, names: Sequence[str] | None, *keywords: str) -> Any:
    """Reads an option that selects layers: a keyword, last:N, or names; None without any.

    Raises:
        SettingsError: a name is empty, N is below 1, or a keyword or last:N is combined with others.
    """
    if not names:
        return None
    if any(name in keywords or name.startswith("last:") for name in names):
        if len(names) > 1:
            raise SettingsError(setting, f"have {', '.join(keywords)} or last:N alone", ",".join(names))
        return names[0] if names[0] in keywords else parse_layers(setting, names[0])
    if not all(names):
        raise SettingsError(setting, "be names of layers", ",".join(names))
    return tuple(names)


def parse_sparse(text: str | None, seed: int = 0) -> Sparse | None:
    """Reads ``--sparse`` and ``--sparse-seed``: top-k:NUMBER, random:NUMBER or threshold:LSB.

    Raises:
        SettingsError: the text is something else, or the seed is given for no random choice.
    """
    kind, _, number = (text or "").partition(":")
    if seed and kind != "random":
        raise SettingsError("sparse_seed", "be 0 unless weights are chosen at random", seed)
    if text is None:
        return None
    try:
        value = int(number) if number.isascii() and number.isdigit() else float(number)
        if kind == "random":
            return Random(value, seed)
        if kind == "threshold":
            return Threshold(value)  # type: ignore[arg-type] # checked there
        if kind == "top-k":
            return TopK(value)
    except SettingsError as error:
        setting = "sparse_seed" if error.setting == "seed" else "sparse"
        raise SettingsError(setting, error.problem, error.got) from None
    except ValueError:
        pass
    raise SettingsError("sparse", "be top-k:NUMBER, random:NUMBER or threshold:LSB", text)
