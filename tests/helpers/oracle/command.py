"""The words of zo_command (zo_command.h): encoding, and whether a model accepts them."""

from collections.abc import Sequence

from .stream import Dist
from .weights import Pairs

RESTORE, REPLAY, UPDATE, PERTURB = 1, 2, 3, 4


def signed(word: int) -> int:
    word &= 0xFFFFFFFF
    return word - 2**32 if word >= 2**31 else word


def instruction(opcode: int, block: int | None, n: int, dist: Dist | None, argument: int, items: Pairs) -> list[int]:
    selector = 0 if block is None else block + 1
    distribution = 0 if dist is None else dist.kind << 24 | dist.p_zero << 16 | dist.mu
    words = [opcode << 24 | selector, n, distribution, argument]
    return [signed(word) for word in words + [word for pair in items for word in pair]]


def restore(block: int | None = None) -> list[int]:
    return instruction(RESTORE, block, 0, None, 0, [])


def replay(steps: Sequence[Pairs], dist: Dist, block: int | None = None) -> list[int]:
    items = [pair for step in steps for pair in step]
    return instruction(REPLAY, block, len(steps), dist, len(steps[0]), items)


def update(queries: Pairs, dist: Dist, restore: int | Pairs = 0, block: int | None = None) -> list[int]:
    """restore: terms, or a factor of the last query's direction."""
    if isinstance(restore, int):
        restore = [(queries[-1][0], restore)] if restore else []
    return instruction(UPDATE, block, len(queries), dist, len(restore), [*queries, *restore])


def perturb(terms: Pairs, dist: Dist, block: int | None = None) -> list[int]:
    return instruction(PERTURB, block, len(terms), dist, 0, terms)


def command(instructions: Sequence[list[int]], loss: bool = True, checksum: bool = False) -> list[int]:
    body = [word for words in instructions for word in words]
    return [0x5A4F0000 + (1 if loss else 0) + (2 if checksum else 0), len(body), *body]


def acceptable(words: Sequence[int], headroom: int, max_queries: int, blocks: int) -> bool:
    """Returns True if a model with these limits accepts a command, by its specification."""
    if words[0] == 0:
        return True
    if words[0] & ~3 != 0x5A4F0000 or not 0 <= words[1] <= len(words) - 2:
        return False
    body, last = list(words[2 : 2 + words[1]]), RESTORE
    while body:
        if len(body) < 4:
            return False
        head, n, distribution, argument = (word & 0xFFFFFFFF for word in body[:4])
        opcode, selector = head >> 24, head & 0xFFFFFF
        if not last <= opcode <= PERTURB or selector > blocks:
            return False
        queries = {RESTORE: 0, REPLAY: argument, UPDATE: n, PERTURB: 0}[opcode]
        steps = {RESTORE: 0, REPLAY: n, UPDATE: 1, PERTURB: 0}[opcode]
        terms = {RESTORE: 0, REPLAY: 0, UPDATE: argument, PERTURB: n}[opcode]
        size = 4 + 2 * (queries * steps + terms)
        if size > len(body):
            return False
        if opcode == RESTORE:
            if n or distribution or argument:
                return False
        else:
            dist = Dist(distribution >> 24, distribution & 0xFFFF, distribution >> 16 & 0xFF)
            if not dist.valid:
                return False
            seconds = body[5:size:2]
            if opcode == PERTURB:
                if argument or not terms:
                    return False
            elif not 1 <= queries <= max_queries or steps < 1:
                return False
            factors = seconds[queries * steps :]
            if terms > 32 or not set(factors) <= {-2, -1, 1}:
                return False
            if terms and dist.reach > headroom:
                return False
            for s in range(steps):
                step = seconds[s * queries : (s + 1) * queries]
                if sum(map(abs, step)) * dist.z_max > 2**30:
                    return False
        body, last = body[size:], opcode
    return True
