"""A case: which file is damaged, and how, by its number."""

from dataclasses import dataclass, field
from random import Random

from . import arrays, logs, metadata, models
from .bases import Bases, choose
from .values import damaged

KINDS = {"model": 30, "zo model": 14, "bytes": 10, "metadata": 20, "seed log": 10, "snapshot log": 10, "data": 10}


@dataclass
class Case:
    """A damaged file, the first of `files`, and others that go with it; all follows from its seed, "seed/number"."""

    seed: str
    kind: str
    base: str
    files: dict[str, bytes]
    options: tuple[str, ...] = ()
    used: list[str] = field(default_factory=list)


def make(bases: Bases, seed: str) -> tuple[Case, Random]:
    rng = Random(seed)
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    if kind in ("seed log", "snapshot log"):
        run = rng.choice(bases.runs[kind])
        files = {"run.zolog": logs.mutated(rng, run.log), "model.tflite": run.model}
        return Case(seed, kind, kind, files, run.options), rng
    if kind == "data":
        name = rng.choice([n for n in bases.plain if n != "autoencoder"])
        return Case(seed, kind, name, {"data.npz": arrays.mutated(rng, bases.data[name])}), rng
    zo = kind in ("zo model", "metadata") or (kind == "bytes" and rng.random() < 0.4)
    name, data = choose(rng, bases.zo if zo else bases.plain)
    if kind == "metadata":
        data = metadata.mutated(rng, data)
    elif kind == "bytes":
        data = damaged(rng, data, choose(rng, bases.plain)[1])
    else:
        data = models.mutated(rng, data)
    return Case(seed, kind, name, {"model.tflite": data}), rng
