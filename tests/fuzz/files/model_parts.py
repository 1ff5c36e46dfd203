"""Parts of a model, and lists of its fields with something changed."""

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from .values import text


def name(rng: Random) -> Any:
    """Converts a name to a field of the schema; strings of a file need not be UTF-8."""
    return rng.randbytes(rng.randrange(1, 9)) if rng.random() < 0.3 else text(rng)


def graph(rng: Random, raw: Any) -> Any:
    return rng.choice(raw.subgraphs)


def tensor(rng: Random, raw: Any) -> Any:
    return rng.choice(graph(rng, raw).tensors)


def operator(rng: Random, raw: Any) -> Any:
    return rng.choice(graph(rng, raw).operators)


def list_of(values: Any) -> list[Any]:
    return [] if values is None else list(values)


def edited(rng: Random, values: Any, new: Callable[[], Any]) -> list[Any]:
    items = list_of(values)
    kind = rng.randrange(6)
    at = rng.randrange(len(items)) if items else 0
    if not items or kind == 0:
        items.insert(at, new())
    elif kind == 1:
        del items[at]
    elif kind == 2:
        items.insert(at, copy.copy(rng.choice(items)))
    elif kind == 3:
        other = rng.randrange(len(items))
        items[at], items[other] = items[other], items[at]
    else:
        items[at] = new()
    return items


def int32(values: list[int]) -> Any:
    return np.array(values, np.int64).astype(np.int32)
