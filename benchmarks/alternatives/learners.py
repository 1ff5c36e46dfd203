# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Learners in C, built for this machine and called by ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SOURCES", "Learner", "Sources", "host_learner", "missing_compiler", "order", "train"]

HERE = Path(__file__).parent
SOURCES = HERE / "c"
Array = NDArray[Any]


@dataclass(frozen=True)
class Sources:
    """The sources of a learner.

    Attributes:
        files: C sources.
        headers: generated headers, by name.
        flags: of the compiler, for definitions and include folders.
        value: type of an element of a sample.
    """

    files: tuple[Path, ...]
    headers: Mapping[str, str]
    flags: tuple[str, ...] = ()
    value: type[np.generic] = np.float32
    own_warnings: bool = field(default=True)

    @property
    def definitions(self) -> list[str]:
        return ["-DLEARNER_VALUE=int8_t"] if self.value is np.int8 else []

    def write_headers(self, folder: Path) -> None:
        for name, text in self.headers.items():
            (folder / name).write_text(text)


def missing_compiler() -> str | None:
    return None if shutil.which("gcc") else "NO gcc: NO LEARNER WAS BUILT FOR THIS MACHINE"


class Learner:
    """A learner that was built for this machine.

    Args:
        library: its shared library.
        inputs, classes: sizes of a sample and of the scores.
        value: type of an element of a sample.
    """

    def __init__(self, library: Path, inputs: int, classes: int, value: type[np.generic]) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.learner_train.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_float)
        self._library.learner_scores.argtypes = (ctypes.c_void_p,)
        self._library.learner_scores.restype = ctypes.POINTER(ctypes.c_float)
        self.inputs, self.classes, self.value = inputs, classes, value
        self.start()

    def start(self) -> None:
        self._library.learner_start()

    def prepared(self, x: Array) -> Array:
        return np.ascontiguousarray(x.reshape(len(x), self.inputs), dtype=self.value)

    def train(self, x: Array, labels: Sequence[int], rates: Sequence[float]) -> None:
        """Trains with prepared samples, one after the other."""
        for sample, label, rate in zip(x, labels, rates, strict=True):
            self._library.learner_train(sample.ctypes.data, int(label), float(rate))

    def scores(self, x: Array) -> Array:
        """Returns the scores of prepared samples, [samples, classes]."""
        found = [np.ctypeslib.as_array(self._library.learner_scores(s.ctypes.data), (self.classes,)).copy() for s in x]
        return np.array(found)

    def accuracy(self, x: Array, y: Array) -> float:
        """Returns the share of right answers in percent."""
        return 100 * float((self.scores(self.prepared(x)).argmax(1) == y).mean())

    def loss(self, x: Array, y: Array) -> float:
        """Returns the mean cross-entropy. The scores are logits, or probabilities, whose sum is 1."""
        logits = self.scores(self.prepared(x)).astype(float)
        if logits.min() >= 0 and np.allclose(logits.sum(1), 1, atol=1e-3):
            logits = np.log(np.maximum(logits, 1e-30))
        logits -= logits.max(1, keepdims=True)
        return float((np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]).mean())

    def weights(self, count: int) -> Array:
        """Returns the weights of backpropagation.c: the memory itself."""
        self._library.learner_weights.restype = ctypes.POINTER(ctypes.c_float)
        return np.ctypeslib.as_array(self._library.learner_weights(), (count,))


def host_learner(sources: Sources, folder: Path, inputs: int, classes: int) -> Learner:
    """Builds a learner for this machine, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    sources.write_headers(folder)
    library = folder / "learner.so"
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Werror"] if sources.own_warnings else ["-w"]
    options = ["-std=c99", "-O3", "-march=native", "-shared", "-fPIC", *warnings, f"-I{SOURCES}", f"-I{folder}"]
    command = ["gcc", *options, *sources.definitions, *sources.flags, *map(str, sources.files), "-lm", "-o", library]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return Learner(library, inputs, classes, sources.value)


def order(samples: int, seed: int = 0) -> Iterator[int]:
    """Yields numbers of samples: each epoch in an order of its own."""
    random = np.random.default_rng(seed)
    while True:
        yield from map(int, random.permutation(samples))


def train(learner: Learner, x: Array, y: Array, steps: int, rate: float) -> None:
    """Trains from the start, with a rate that falls to 0."""
    learner.start()
    chosen = [number for number, _ in zip(order(len(y)), range(steps), strict=False)]
    rates = rate * (1 - np.arange(steps) / steps)
    learner.train(learner.prepared(x)[chosen], y[chosen], rates)
