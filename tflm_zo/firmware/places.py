"""The places of buffers that share memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from .arena import first_gap

__all__ = ["Buffer", "Sharing", "end_of"]

# Attempts from each order of buffers.
_ATTEMPTS: Final = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Buffer:
    """A buffer, and the first and the last time at which it is needed."""

    kind: str  # "at", "passing", "field" or "filter"
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
    shared: int  # bytes at the beginning that are not there during invokes
    invokes: Sequence[tuple[float, float]]  # the first and the last time of some
    # pairs, the second one of which is written over the first: by how many bytes it begins before that, at least
    leads: Mapping[tuple[Buffer, Buffer], int]

    def _begin(self, b: Buffer) -> int:
        """Returns the lowest offset that a buffer can have."""
        for first, last in self.invokes:
            if first <= b.last and b.first <= last:
                return self.shared
        return self.shared if b.size > self.shared else 0

    def most(self) -> tuple[int, float]:
        """Returns how many bytes are needed at once, and when: no places take less."""
        rows = [(b.first, b.last, b.size, self._begin(b)) for b in self.buffers] or [(0, 0, 0, 0)]
        first, last, size, begin = (np.array(column) for column in zip(*rows, strict=True))
        times = np.unique([first, last])
        there = (first <= times[:, None]) & (times[:, None] <= last)
        # Of buffers that may lie in the shared bytes, and of others.
        low, high = there @ np.where(begin == 0, size, 0), there @ np.where(begin > 0, size, 0)
        for (a, b), lead in self.leads.items():
            needs = high if self._begin(a) or self._begin(b) else low
            needs[times == b.first] -= a.size + b.size - max(a.size + max(lead, 0), b.size)
        needs = np.maximum(low, self.shared) + high
        return int(needs.max()), float(times[needs == needs.max()].max())

    def places(self) -> dict[Buffer, int]:
        """Returns the offsets of buffers, those that end lowest of several attempts: in each, one buffer after the
        other has the lowest offset at which no other one of the same time lies.
        """
        enough, best = self.most()[0], dict[Buffer, int]()
        near = {b: (self._begin(b), list(self._near(b))) for b in self.buffers}
        for order in _ORDERS if self.leads else _ORDERS[:1]:
            left = sorted(self.buffers, key=order)
            for _ in range(_ATTEMPTS if self.leads else 1):
                placed = dict[Buffer, int]()
                for b in left:
                    least, others = near[b]
                    taken = [(placed[o] + begin, placed[o] + end) for o, begin, end in others if o in placed]
                    at = first_gap(taken, b.size, least)
                    placed[b] = first_gap(taken, b.size, self.shared) if at < self.shared < at + b.size else at
                last = max(self.buffers, key=lambda b: placed[b] + b.size, default=None)
                if not best or end_of(placed) < end_of(best):
                    best = placed
                if last is None or end_of(best) <= enough:
                    return best
                left.insert(left.index(last) // 2, left.pop(left.index(last)))  # it comes earlier
        return best

    def _near(self, b: Buffer) -> Iterator[tuple[Buffer, int, int]]:
        """Yields other buffers of the same time, and from where to where from their offset on there is no place."""
        for o in self.buffers:
            if o is not b and o.first <= b.last and b.first <= o.last:
                begin, end = b.size - self.leads.get((o, b), b.size), self.leads.get((b, o), o.size)
                if begin - b.size < end:
                    yield o, begin, end
