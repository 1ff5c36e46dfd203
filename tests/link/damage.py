"""The effects of a bad line on bytes: it loses, doubles and changes some, and whole pieces."""

import random
from collections import Counter


class Damage:
    """Damage from a seed to a share of the bytes; ten times as many of the pieces are lost or doubled."""

    def __init__(self, share: float, seed: int) -> None:
        self.share, self._draw, self.done = share, random.Random(seed), Counter[str]()

    def of(self, data: bytes) -> bytes:
        draw, out = self._draw, bytearray()
        for byte in data:
            kind = draw.choice(("lost", "doubled", "flipped")) if draw.random() < self.share else ""
            self.done[kind] += 1
            if kind == "flipped":
                byte ^= 1 << draw.randrange(8)
            out += bytes([byte]) * {"lost": 0, "doubled": 2}.get(kind, 1)
        kind = draw.choice(("piece lost", "piece doubled")) if draw.random() < 10 * self.share else ""
        self.done[kind] += 1
        return bytes(out * {"piece lost": 0, "piece doubled": 2}.get(kind, 1))

    @property
    def count(self) -> int:
        return sum(count for kind, count in self.done.items() if kind)
