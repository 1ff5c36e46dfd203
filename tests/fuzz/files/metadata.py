"""Damage to the JSON that a ZO model says about itself; the file around it stays whole."""

import copy
import json
from random import Random
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from .models import packed
from .values import FLOATS, damaged, integer, near, text


def mutated(rng: Random, data: bytes) -> bytes:
    raw = schema.ModelT.InitFromPackedBuf(data, 0)
    buffer = raw.buffers[next(m.buffer for m in raw.metadata if m.name == b"tflm_zo")]
    written = bytes(buffer.data)
    if rng.random() < 0.1:
        written = damaged(rng, written)
    else:
        content = json.loads(written)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            content = changed(rng, content)
        written = json.dumps(content).encode()
        if rng.random() < 0.02:
            written = rng.choice((b"", b"\xef\xbb\xbf" + written, written * 2, b"[" * 100_000))
    buffer.data = np.frombuffer(written, np.uint8) if written else None
    return packed(raw)


def changed(rng: Random, content: Any) -> Any:
    places = list(walk(content, ()))
    path = rng.choice(places)
    if not path:
        return new(rng, content)
    parent = content
    for key in path[:-1]:
        parent = parent[key]
    key, kind = path[-1], rng.random()
    if kind < 0.15:
        del parent[key]
    elif kind < 0.25:
        other = rng.choice(places)
        value = content
        for step in other:
            value = value[step]
        parent[key] = copy.deepcopy(value)
    elif kind < 0.35 and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
    elif kind < 0.4 and isinstance(parent, dict):
        parent[text(rng)] = new(rng, None)
    elif kind < 0.45 and isinstance(parent, dict):
        parent[rng.choice(list(parent))] = parent[key]
    else:
        parent[key] = new(rng, parent[key])
    return content


def walk(content: Any, path: tuple[Any, ...]) -> Any:
    yield path
    if isinstance(content, dict):
        items: Any = content.items()
    elif isinstance(content, list):
        items = enumerate(content)
    else:
        return
    for key, value in items:
        yield from walk(value, (*path, key))


def new(rng: Random, old: Any) -> Any:
    if rng.random() < 0.65:
        if isinstance(old, bool):
            return not old
        if isinstance(old, int):
            return near(rng, old)
        if isinstance(old, float):
            return rng.choice((*FLOATS, old * 2, -old, old / 1e6))
        if isinstance(old, str):
            return rng.choice(
                ("cross_entropy", "mse", "binary_cross_entropy", "floor_log2", "plain", "mean", "max_pool")
                if rng.random() < 0.4
                else ("input", "output", "boundary", "label", "command", "loss", "status", text(rng))
            )
        if isinstance(old, list):
            return rng.choice(([], old[:1], old + old, old[::-1], [old]))
    return rng.choice((None, True, False, integer(rng), rng.choice(FLOATS), text(rng), [], {}, [1], {"a": 1}))
