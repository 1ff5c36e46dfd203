# SPDX-License-Identifier: Apache-2.0
"""How large an arena must be on a 32-bit target.

TFLM's recording allocator (of the ``tflite-micro`` package) says what each segment takes on this machine:
the head, which is activations and scratch buffers and the same everywhere but for what optimized kernels ask
for besides, and the tail, whose structs are smaller where pointers have four bytes. Where that package is not
installed, the size is an upper bound.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model import Model
from ..operator_costs import filter_of

# Structs of TFLM on 64-bit and 32-bit machines, bytes.
_POINTERS = {
    "TfLiteEvalTensor data": (24, 12),
    "Persistent TfLiteTensor data": (64, 40),
    "Persistent TfLiteTensor quantization data": (16, 8),
    "NodeAndRegistration struct": (64, 32),
}
_ALIGNMENT = 16
# zo_directory_entry of a trainable tensor.
_DIRECTORY_ENTRY = 16
# By how much structs of a 32-bit target grow without TF_LITE_STATIC_MEMORY: TfLiteTensor, of which each
# input and output has one, and NodeAndRegistration.
_DYNAMIC_TENSOR, _DYNAMIC_NODE = 32, 12
# While a segment is planned, above the activations of those before it: what the planner notes of a tensor.
_PLANNING = 80
# What a board's own allocator options and another version of TFLM may add.
_MARGIN = 256

_PROGRAM = """
import ctypes, sys
from tflm_zo import native
from tflite_micro import runtime
native.library()
for path, size in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.stderr.write("segment\\n")
    sys.stderr.flush()
    model = open(path, "rb").read()
    runtime.Interpreter.from_bytes(model, ["TFLM_ZO_Register"], arena_size=int(size)).print_allocations()
"""


@dataclass(frozen=True)
class Arena:
    """Bytes of the arena that all segments share.

    Attributes:
        bytes: a multiple of 16.
        bytes_mve: of a core with vectors (MVE), for which CMSIS-NN's kernels want more.
        measured: by the recording allocator; else an upper bound.
        least: what no build of TFLM gets by with.
    """

    bytes: int
    bytes_mve: int
    measured: bool
    least: int


def _scratch(model: Model, *, mve: bool) -> int:
    """What CMSIS-NN's kernels ask for at most at a time.

    Columns of a convolution (two of them in 16 bits; four with MVE), the filter of a depthwise one in 16 bits
    (with MVE four images of it, 124 channels wide), an accumulator for each output of a dense layer.
    """
    largest = 0
    for op in model.subgraphs[0].operators:
        weights = filter_of(op)
        if weights is None:
            continue
        shape = weights.shape
        if op.code.name == "CONV_2D":
            need = 4 * (shape[1] * shape[2] * shape[3] + 16)
        elif op.code.name == "DEPTHWISE_CONV_2D":
            area = shape[1] * shape[2]
            need = 4 * max(124 * area, area + 16) if mve else 2 * area * (shape[3] + 16)
        else:
            need = 4 * shape[0]
        largest = max(largest, need)
    return largest


def _upper_bound(model: Model) -> int:
    graph = model.subgraphs[0]
    elements = sum(t.size for t in graph.tensors if not t.is_constant)
    return 65536 + 8 * elements + 256 * len(graph.tensors) + 1024 * len(graph.operators)


def _round(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _recorded(models: Sequence[Model]) -> list[dict[str, int]] | None:
    with tempfile.TemporaryDirectory() as folder:
        arguments: list[str] = []
        for i, model in enumerate(models):
            path = Path(folder) / f"{i}.tflite"
            path.write_bytes(model.to_bytes())
            arguments += [str(path), str(_upper_bound(model))]
        # In a process of its own: TFLM writes to the process's stderr. In that folder: Python imports from
        # the working directory first, and what lies in the user's is none of ours.
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        return None
    found = []
    for part in done.stderr.split("segment\n")[1:]:
        sizes = {m[1]: int(m[2]) for m in re.finditer(r"Arena allocation (\w+) (\d+) bytes", part)}
        for m in re.finditer(r"'([^']+)' used (\d+) bytes.*?for (\d+) ", part):
            sizes[m[1]] = int(m[2])
        found.append(sizes)
    return found if len(found) == len(models) and all("tail" in f for f in found) else None


def _dynamic(model: Model) -> int:
    graph = model.subgraphs[0]
    tensors = len(graph.inputs) + len(graph.outputs)
    return _DYNAMIC_TENSOR * tensors + _DYNAMIC_NODE * len(graph.operators)


def arena_of(models: Sequence[Model], *, tensors: int, static_memory: bool = True) -> Arena:
    """The arena of all segments of a model.

    Args:
        models: each segment as a model of its own.
        tensors: how many are trainable.
        static_memory: whether TFLM is built with TF_LITE_STATIC_MEMORY.
    """
    more = _DIRECTORY_ENTRY * tensors + (0 if static_memory else sum(map(_dynamic, models)))
    recorded = _recorded(models)
    if recorded is None:
        tail = sum(
            sum(t.size * 4 for t in m.subgraphs[0].tensors if t.is_variable)
            + 64 * len(m.subgraphs[0].tensors)
            + 256 * len(m.subgraphs[0].operators)
            for m in models
        )
        head = max(
            sum(t.size for t in m.subgraphs[0].tensors if not t.is_constant and not t.is_variable)
            for m in models
        )
        variables = sum(t.size for m in models for t in m.subgraphs[0].tensors if t.is_variable)
        scalar, mve = (max(_scratch(m, mve=v) for m in models) for v in (False, True))
        most = head + tail + 4096 + more
        return Arena(_round(most + scalar), _round(most + mve), False, variables)
    tail = 0
    for sizes in recorded:
        own = sizes["tail"]
        for name, (wide, narrow) in _POINTERS.items():
            own -= sizes.get(name, 0) * (wide - narrow) // wide
        tail += own
    head, head_mve = (
        max(r["head"] + _scratch(m, mve=v) for r, m in zip(recorded, models, strict=True))
        for v in (False, True)
    )
    # A segment is planned above what earlier ones have in the head.
    planning = before = 0
    for sizes, model in zip(recorded, models, strict=True):
        planning = max(planning, before + _PLANNING * len(model.subgraphs[0].tensors))
        before = max(before, sizes["head"] + _scratch(model, mve=True))
    # Versions and kernels differ by less than a sixteenth.
    least = (tail + max(r["head"] for r in recorded)) // 16 * 15
    besides = tail + _MARGIN + more
    return Arena(
        _round(max(head, planning) + besides), _round(max(head_mve, planning) + besides), True, least
    )
