"""The places of buffers that share memory."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from .arena import first_gap

__all__ = ["Buffer", "Sharing", "end_of"]

# Attempts from each order of buffers, and from the best one.
_ATTEMPTS, _CHANCES = 8, 32


@dataclasses.dataclass(frozen=True, eq=False)
class Buffer:
    """A buffer, and the first and the last time at which it is needed."""

    kind: str  # "at", "bits", "passing", "field", "filter" or "arena"
    number: int  # of a segment, a field or a task
    size: int  # bytes, a multiple of 8
    first: float
    last: float


_ORDERS: Final[tuple[Callable[[Buffer], tuple[object, ...]], ...]] = (
    lambda b: (-b.size, b.kind, b.number),
    lambda b: (-b.size, b.kind, -b.number),
    lambda b: (b.first, -b.size),
)


def end_of(places: Mapping[Buffer, int]) -> int:
    """Returns the end of the memory that buffers take."""
    return max((at + b.size for b, at in places.items()), default=0)


class Sharing(NamedTuple):
    """Buffers that share memory unless they are needed at the same time."""

    buffers: Sequence[Buffer]
    fixed: Mapping[Buffer, int]  # further ones, with their places
    # pairs, the second one of which is written over the first: by how many bytes it begins before that, at least
    leads: Mapping[tuple[Buffer, Buffer], int]

    def most(self) -> tuple[int, float]:
        """Returns how many bytes are needed at once, and when: no places take less."""
        rows = [(b.first, b.last, b.size) for b in (*self.buffers, *self.fixed)] or [(0, 0, 0)]
        first, last, size = (np.array(column) for column in zip(*rows, strict=True))
        times = np.unique([first, last])
        needs = ((first <= times[:, None]) & (times[:, None] <= last)) @ size
        for (a, b), lead in self.leads.items():
            needs[times == max(a.first, b.first)] -= a.size + b.size - max(a.size + max(lead, 0), b.size)
        return int(needs.max()), float(times[needs == needs.max()].max())

    def places(self) -> dict[Buffer, int]:
        """Returns the offsets of buffers, those that end lowest of several attempts: in each, one buffer after the
        other has the lowest offset at which no other one of the same time lies. Then that which ends last, or one of
        those around it, comes earlier: first in each of several orders, then in the best one.
        """
        enough, near, chance = self.most()[0], {b: list(self._near(b)) for b in self.buffers}, random.Random(0)
        best, lowest, least = dict[Buffer, int](), 0, list[Buffer]()
        for order in [*(_ORDERS if self.leads else _ORDERS[:1]), None]:
            left = least if order is None else sorted(self.buffers, key=order)
            for _ in range((_CHANCES if order is None else _ATTEMPTS) if self.leads else 1):
                placed = dict(self.fixed)
                for b in left:
                    taken = [(placed[o] + begin, placed[o] + end) for o, begin, end in near[b] if o in placed]
                    placed[b] = first_gap(taken, b.size)
                end = end_of(placed)
                if not best or end <= lowest:
                    best, lowest, least = placed, end, left
                if not left or lowest <= enough:
                    return best
                left, ends = (left, placed) if order else (least, best)
                moved = max(left, key=lambda b: ends[b] + b.size)
                if order is None and chance.random() < 0.5:
                    moved = chance.choice([moved, *(o for o, _, _ in near[moved] if o not in self.fixed)])
                at = left.index(moved)
                left = [b for b in left if b is not moved]
                left.insert(chance.randrange(at + 1) if order is None else at // 2, moved)
        return best

    def _near(self, b: Buffer) -> Iterator[tuple[Buffer, int, int]]:
        """Yields other buffers of the same time, and from where to where from their offset on there is no place."""
        for o in (*self.buffers, *self.fixed):
            if o is not b and o.first <= b.last and b.first <= o.last:
                begin, end = b.size - self.leads.get((o, b), b.size), self.leads.get((b, o), o.size)
                if begin - b.size < end:
                    yield o, begin, end
