"""Texts of losses that are sums of parts: ``scores=binary_cross_entropy,boxes[0:4]=huber*5``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from .errors import InjectError

#: Losses of a part.
PART_KINDS: Final = ("auto", "cross_entropy", "binary_cross_entropy", "mse", "mae", "huber")
#: Of these, errors of regressions.
ERRORS: Final = ("mse", "mae", "huber")

_PART: Final = re.compile(
    r"(?P<output>.+?)(?:\[(?P<begin>\d*)(?P<colon>:?)(?P<end>\d*)\])?=(?P<kind>[a-z_-]+)(?:\*(?P<weight>[^*]+))?"
)


@dataclasses.dataclass(frozen=True)
class WantedPart:
    """One part as it is asked for: ``OUTPUT[BEGIN:END]=KIND*WEIGHT``."""

    output: str  #: name or number of the output.
    kind: str  #: one of `PART_KINDS`.
    weight: float = 1.0  #: factor of its loss, above 0.
    begin: int = 0  #: first channel, of the output's last dimension.
    end: int | None = None  #: end of its channels; None: all that follow.

    @property
    def key(self) -> str:
        """Name of its labels, as the text has it: the output, with channels if it has not all of them."""
        if (self.begin, self.end) == (0, None):
            return self.output
        end = "" if self.end is None else str(self.end)
        return f"{self.output}[{self.begin}]" if end == str(self.begin + 1) else f"{self.output}[{self.begin}:{end}]"


def loss_text(loss: str | Mapping[str, str]) -> str:
    """Returns a loss as text, of parts ``OUTPUT=KIND*WEIGHT`` by their output."""
    return loss if isinstance(loss, str) else ",".join(f"{output}={kind}" for output, kind in loss.items())


def parse_parts(text: str) -> tuple[WantedPart, ...]:
    """Returns the parts of a loss, () for a loss of one kind. Raises InjectError where the text is malformed."""
    if "=" not in text:
        return ()
    parts = []
    for item in text.split(","):
        found = _PART.fullmatch(item.strip())
        if found is None:
            raise InjectError("loss", "be a kind, or OUTPUT=KIND or OUTPUT[BEGIN:END]=KIND*WEIGHT for each part", item)
        kind, begin = found["kind"].replace("-", "_"), int(found["begin"] or 0)
        if kind not in PART_KINDS:
            raise InjectError("loss", f"have parts of the kinds {', '.join(PART_KINDS)}", kind)
        end = int(found["end"]) if found["end"] else None if found["colon"] or not found["begin"] else begin + 1
        parts.append(WantedPart(found["output"], kind, _weight(found["weight"]), begin, end))
    keys = [part.key for part in parts]
    if len(set(keys)) < len(keys):
        raise InjectError("loss", "name each output once", text)
    return tuple(parts)


def _weight(text: str | None) -> float:
    try:
        weight = float(text or 1)
    except ValueError:
        weight = 0.0
    if not 2.0**-20 <= weight <= 2.0**20:
        raise InjectError("loss", "have weights from 2^-20 to 2^20", text)
    return weight
