"""The places of buffers that share memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from .arena import first_gap

__all__ = ["Buffer", "Sharing"]

# Attempts from each order of buffers.
_ATTEMPTS: Final = 8


class Buffer(NamedTuple):
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


@dataclasses.dataclass(frozen=True)
class Sharing:
    """Buffers that share memory unless they are needed at the same time.

    Attributes:
        buffers: the buffers.
        shared: bytes at the beginning that are not there during invokes.
        invokes: the first and the last time of invokes.
        leads: pairs of buffers, by number, the second of which is written over the first one: by how many bytes it
            begins before that, at least.
    """

    buffers: Sequence[Buffer]
    shared: int
    invokes: Sequence[tuple[float, float]]
    leads: Mapping[tuple[int, int], int]

    def most(self) -> tuple[int, float]:
        """Returns how many bytes are needed at once, and when: no places take less."""
        # Of buffers that may lie in the shared bytes, and of others.
        parts = [[b for b in self.buffers if self._outside(b) == outside] for outside in (False, True)]
        times = {t for b in self.buffers for t in (b.first, b.last)}
        needs = {t: [sum(b.size for b in part if b.first <= t <= b.last) for part in parts] for t in times}
        for pair, lead in self.leads.items():
            source, target = (self.buffers[i] for i in pair)
            saved = source.size + target.size - max(source.size + max(lead, 0), target.size)
            needs[target.first][self._outside(source) or self._outside(target)] -= saved
        return max(
            ((max(self.shared, free) + others, time) for time, (free, others) in needs.items()), default=(0, 0.0)
        )

    def _outside(self, b: Buffer) -> bool:
        return b.size > self.shared or any(first <= b.last and b.first <= last for first, last in self.invokes)

    def places(self) -> list[int]:
        """Returns the offsets of buffers, those that end lowest of several attempts: in each, one buffer after the
        other has the lowest offset at which no other one of the same time lies.
        """
        buffers, leads, enough = self.buffers, self.leads, self.most()[0]
        # What is taken of the others' memory, from their offset on, and the lowest offset.
        near, least = list[list[tuple[int, int, int]]](), list[int]()
        for i, b in enumerate(buffers):
            others = [j for j, o in enumerate(buffers) if j != i and o.first <= b.last and b.first <= o.last]
            taken = [(j, b.size - leads.get((j, i), b.size), leads.get((i, j), buffers[j].size)) for j in others]
            near.append([(j, begin, end) for j, begin, end in taken if begin - b.size < end])
            least.append(self.shared if self._outside(b) else 0)
        best, lowest = list[int](), math.inf
        for order in _ORDERS if leads else _ORDERS[:1]:
            left = sorted(range(len(buffers)), key=lambda i: order(buffers[i]))
            for _ in range(_ATTEMPTS if leads else 1):
                placed = dict[int, int]()
                for i in left:
                    gone = [(placed[j] + begin, placed[j] + end) for j, begin, end in near[i] if j in placed]
                    at = first_gap(gone, size := buffers[i].size, least[i])
                    placed[i] = first_gap(gone, size, self.shared) if at < self.shared < at + size else at
                ends = [placed[i] + b.size for i, b in enumerate(buffers)]
                if (end := max(ends, default=0)) < lowest:
                    best, lowest = [placed[i] for i in range(len(buffers))], end
                if lowest <= enough:
                    return best
                last = left.index(ends.index(end))  # a buffer that ends last comes earlier
                left.insert(last // 2, left.pop(last))
        return best
