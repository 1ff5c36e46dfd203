"""Values that programs forget, and damage that knows no format."""

from random import Random
from typing import Any

INTEGERS = (0, 1, -1, 2, 3, 7, 8, 127, 128, 255, 256, 1024, 32767, 65535, 65536, 2**20)
EXTREMES = (2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**32, 2**63 - 1, -(2**63), 2**64 - 1, 10**30)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 3e38, 1e308, float("inf"), float("-inf"), float("nan"))
NAMES = ("", "x", "y", "conv", "fc", "image", "zo_command", "zo_label", "boundary", "a/b/c", "[red]x", "``")
LONG_NAME = "layer/" * 60
WEIRD_TEXT = ("line\nbreak", "\x00", "\x1b[31m", "é🎲", "[/bold]", "%s{}", LONG_NAME)


def integer(rng: Random, bits: int = 64) -> int:
    """Draws a small or round integer, or an end of the range of `bits` bits."""
    value = rng.choice(INTEGERS) if rng.random() < 0.7 else rng.choice(EXTREMES)
    if rng.random() < 0.2:
        value += rng.choice((-1, 1))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return value if bits == 64 else max(low, min(high, value))


def near(rng: Random, value: int, bits: int = 32) -> int:
    choice = rng.random()
    if choice < 0.5:
        return value + rng.choice((-2, -1, 1, 2))
    if choice < 0.7:
        return value * rng.choice((0, -1, 2, 16))
    return integer(rng, bits)


def text(rng: Random) -> str:
    return rng.choice(NAMES if rng.random() < 0.7 else WEIRD_TEXT)


def pick(rng: Random, items: Any) -> Any:
    return rng.choice(items) if len(items) else None


def damaged(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not result:
            break
        at = rng.randrange(len(result))
        kind = rng.randrange(8)
        if kind == 0:
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            result[at] = rng.randrange(256)
        elif kind == 2:
            at &= ~3
            result[at : at + 4] = (integer(rng) & 0xFFFFFFFF).to_bytes(4, "little")
        elif kind == 3:
            del result[at:]
        elif kind == 4:
            del result[at : at + rng.choice((1, 2, 4, 16, 64))]
        elif kind == 5:
            result[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16, 64)))
        elif kind == 6:
            length = rng.choice((1, 4, 16, 64, 256))
            source = rng.randrange(len(result))
            result[at : at + length] = result[source : source + length]
        elif other:
            start = rng.randrange(len(other))
            result[at:] = other[start:]
    return bytes(result)
