"""Backward programs of exact tails (``ops/core/backward/zo_backward.h``), from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import address
from .loader import Struct, call, constants, library, structs
from .node_layer import NodeLayer


@dataclass(frozen=True)
class BackwardStep:
    """A step of a program, ``zo_backward_step``."""

    kind: str  #: name of the kind, see `ZoBackwardStep`.
    source: int  #: number of a field.
    target: int  #: likewise.
    #: fields of the step ("mask", "slice", "place"), its ``zo_pool`` or its ``zo_error_product``.
    numbers: Mapping[str, int] = field(default_factory=dict)
    layer: NodeLayer | None = None  #: layer through which errors pass back, or None.
    #: factors of the kind, or scales of a layer's weights, int16 in units of 2^(exponent - 15), or None.
    mantissas: NDArray[np.int16] | None = None
    exponent: int = 0
    tensor: int | None = None  #: number of the trainable tensor with the weights of kind "layer", else None.
    segment: int | None = None  #: number of the segment whose input activation the step reads, or None.

    @property
    def pool(self) -> Struct | None:
        """``zo_pool``, or None."""
        return structs.zo_pool(**self.numbers) if self.kind.endswith("_pool") else None

    @property
    def product(self) -> Struct | None:
        """``zo_error_product``, or None."""
        if self.kind not in ("product", "sum"):
            return None
        return structs.zo_error_product(**{"other_repeat": 1, "other_length": 1, **self.numbers})

    @property
    def own_numbers(self) -> dict[str, int]:
        """The numeric fields of ``zo_backward_step``, by name, in order."""
        own = self.numbers if self.pool is None and self.product is None else {}
        names = ("low", "high", "blocks", "pitch", "offset", "length")
        kind = int(getattr(constants, f"ZO_BACKWARD_{self.kind.upper()}"))
        return {"kind": kind, "from": self.source, "to": self.target, **{name: own.get(name, 0) for name in names}}

    @cached_property
    def lead(self) -> int | None:
        """Number of values by which the errors that the step writes have to begin before those that it reads if both
        share memory; below 0, they may begin so much behind them. None: they cannot share memory.
        """
        if self.kind in ("factors", "levels", "slice"):
            return 0  # value by value
        if self.kind not in ("layer", "average_pool"):
            return None
        sizes = self.numbers if self.layer is None else self.layer.struct.numbers()
        in_c, out_c = (sizes.get(name, sizes.get("channels", 0)) for name in ("in_c", "out_c"))
        rows, columns = _first_windows(sizes, "h", "top"), _first_windows(sizes, "w", "left")
        # Inputs are written in order: the first output that an input or a later one reads.
        first = np.minimum.accumulate((rows[:, None] * sizes["out_w"] + columns).ravel()[::-1])[::-1]
        leads = np.arange(1, first.size) * in_c - first[1:] * out_c
        return int(leads.max(initial=-sizes["out_h"] * sizes["out_w"] * out_c))

    @property
    def channels(self) -> int:
        """Number of the factors' channels."""
        return self.mantissas.size if self.kind == "factors" and self.mantissas is not None else 0


def _first_windows(sizes: Mapping[str, int], side: str, begin: str) -> NDArray[np.int64]:
    """Returns the first window along a side that reads each position; far above all of them: none does."""
    first = np.full(sizes[f"in_{side}"], 2**31)
    elements = np.arange(sizes[f"k_{side}"]) * sizes.get(f"dilation_{side}", 1) - sizes[f"pad_{begin}"]
    for window in reversed(range(sizes[f"out_{side}"])):
        read = elements + window * sizes[f"stride_{side}"]
        first[read[(read >= 0) & (read < first.size)]] = window
    return first


@dataclass(frozen=True)
class BackwardProgram:
    """A program of a run."""

    steps: tuple[BackwardStep, ...]  #: steps in the order of execution.
    fields: tuple[int, ...]  #: errors of a sample in each field; number 0 is the field of the logits.
    of_tasks: Mapping[int, int]  #: number of the field of each task of the tail, by number of the task.

    @property
    def kept(self) -> frozenset[int]:
        """Numbers of the fields that are kept for each sample of a minibatch: those of tasks and of the logits."""
        return frozenset({0, *self.of_tasks.values()})

    @property
    def scratch_values(self) -> int:
        """int32 values of scratch memory that the steps need (``zo_backward_scratch_values``)."""
        steps, _kept = _structs_of(self.steps)
        return int(library().zo_backward_scratch_values(steps, len(self.steps)))


def _structs_of(steps: Sequence[BackwardStep]) -> tuple[Any, list[Any]]:
    """Returns ``zo_backward_step`` [steps], and the structs to which they point."""
    result, kept = (structs.zo_backward_step * max(1, len(steps)))(), list[Any]()

    for c, step in zip(result, steps, strict=False):
        for name, value in step.own_numbers.items():
            setattr(c, name, value)
        layer = None if step.layer is None else step.layer.struct
        for name, struct in (("layer", layer), ("pool", step.pool), ("product", step.product)):
            if struct is not None:
                kept.append(struct)
                setattr(c, name, ctypes.addressof(struct))
        if step.mantissas is not None:
            c.mantissas = address("mantissas", step.mantissas, np.int16)
        c.channels, c.exponent = step.channels, step.exponent
    return result, kept


class Backward:
    """A program with its memory, for a minibatch of `samples`. Steps and fields that do not fit each other raise
    NativeError.

    Attributes:
        struct: ``zo_backward``.
        fields: errors and exponents of each field, int16 and int8; kept fields [samples, ...].
    """

    def __init__(self, program: BackwardProgram, samples: int) -> None:
        self.program = program
        self.fields: list[tuple[NDArray[np.int16], NDArray[np.int8]]] = []
        fields = (structs.zo_error_field * len(program.fields))()
        for number, (c, count) in enumerate(zip(fields, program.fields, strict=True)):
            kept = number in program.kept
            own = samples if kept else 1
            errors, exponents = np.zeros((own, count), np.int16), np.zeros(own, np.int8)
            c.errors, c.exponents, c.count, c.kept = errors.ctypes.data, exponents.ctypes.data, count, int(kept)
            self.fields.append((errors, exponents))
        norms = np.zeros(max(1, len(program.steps)), np.uint32)
        scratch = np.zeros(max(1, program.scratch_values), np.int32)
        steps, pointed_to = _structs_of(program.steps)
        self._kept = norms, scratch, steps, pointed_to, fields  # keeps the targets of addresses in structs alive
        sizes = len(program.steps), len(program.fields)
        arrays = norms.ctypes.data, scratch.ctypes.data
        self.struct = structs.zo_backward(ctypes.addressof(steps), ctypes.addressof(fields), *sizes, *arrays)
        call("zo_backward_check", self.struct)

    def sources(self, samples: int, given: Sequence[NDArray[np.int8] | None]) -> ctypes.Array[ctypes.c_void_p]:
        """Returns the addresses of the arrays that the steps read: for each step, the weights or the activation
        [samples, ...] that it reads, or None. Another size raises ValueError.
        """
        found = (ctypes.c_void_p * max(1, len(given)))()
        for i, (step, array) in enumerate(zip(self.program.steps, given, strict=True)):
            wanted = 0 if step.layer is None else step.layer.weights
            if step.segment is not None:
                count = self.program.fields[step.target]
                wanted = samples * step.numbers.get("other_length", count)
            if (0 if array is None else array.size) != wanted:
                raise ValueError(f"sources: step {i} reads {wanted} values")
            if array is not None:
                found[i] = address("sources", array, np.int8)
        return found
