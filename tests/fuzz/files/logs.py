"""Damage to both logs (zo_log.h, zo_snapshot_log.h) behind checksums that are right again."""

import struct
import zlib
from random import Random

from .values import damaged, integer, near


def mutated(rng: Random, data: bytes) -> bytes:
    kind = rng.random()
    if kind < 0.2:
        return damaged(rng, data)
    result = bytearray(data)
    begin = rng.choice(areas(data))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change_word(rng, result, *begin)
    if kind < 0.9:
        seal(result)
    if rng.random() < 0.2:
        del result[rng.randrange(len(result)) :]
    elif rng.random() < 0.1:
        result += rng.choice((rng.randbytes(rng.randrange(1, 64)), bytes(64), bytes(result[-64:])))
    return bytes(result)


def u16(data: bytes | bytearray, at: int) -> int:
    return int(struct.unpack_from("<H", data, at)[0])


def u32(data: bytes | bytearray, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def areas(data: bytes) -> list[tuple[int, int]]:
    """Lists (begin, end) of each part with a checksum, the header several times: it has the most fields."""
    header = u16(data, 10)
    return [(0, header)] * 6 + sealed(data)[1:]


def sealed(data: bytes | bytearray) -> list[tuple[int, int]]:
    header, record = u16(data, 10), u16(data, 12)
    parts, at = [(0, header)], header
    if u16(data, 8) >= 2:
        slot = 12 + 8 * u16(data, 14) + u32(data, 132) + 4
        parts += [(at, at + slot), (at + slot, at + 2 * slot)]
        at += 2 * slot
    while record and at + record <= len(data) and len(parts) < 64:
        parts.append((at, at + record))
        at += record
    return [(a, b) for a, b in parts if b <= len(data)]


def seal(data: bytearray) -> None:
    try:
        for begin, end in sealed(data):
            if end - begin > 4:
                data[end - 4 : end] = zlib.crc32(data[begin : end - 4]).to_bytes(4, "little")
    except struct.error:
        pass  # too short for a header


def change_word(rng: Random, data: bytearray, begin: int, end: int) -> None:
    if end - begin < 8:
        return
    size = rng.choice((4, 4, 4, 2, 1))
    at = begin + rng.randrange((end - begin - 4) // size) * size
    old = int.from_bytes(data[at : at + size], "little")
    new = near(rng, old) if rng.random() < 0.6 else integer(rng)
    data[at : at + size] = (new % 256**size).to_bytes(size, "little")
