"""The size of the arena that a model needs on a 32-bit target.

TFLM's recording allocator (package ``tflite-micro``) measures each segment on this machine. The arena's tail is
corrected for pointers of four bytes and for CMSIS-NN's kernels. Its head is planned again (`planned_bytes`) with the
scratch buffers of those kernels (`cmsis_nn`). Without that package, the size is an upper bound.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..converters import ConversionError
from ..converters.model import Model, Operator, Subgraph
from ..converters.model.schema import DTYPES, BuiltinOperator
from ..core import library_path
from ..runtime.tflm import arena_upper_bound
from .cmsis_nn import Extra, extra_memory

_ALIGNMENT = 16
# zo_directory_entry of a trainable tensor.
_DIRECTORY_ENTRY = 16
# Structs of TFLM that the allocator records, bytes on 64-bit and on 32-bit machines: parts of the whole.
_RECORDED_STRUCTS = {
    "TfLiteEvalTensor data": (24, 12),
    "Persistent TfLiteTensor data": (64, 32),
    "Persistent TfLiteTensor quantization data": (32, 20),  # with one zero point
    "NodeAndRegistration struct": (64, 32),
}
# The allocator's own objects, of which all segments have one together, and those of each segment. On this
# machine it is the one that records, which has its records besides.
_ALLOCATOR = (424, 116)
_SEGMENT = (32, 16)
# Persistent bytes of a layer's kernel, multiples of 16: TFLM's reference kernels on 64-bit machines, and
# CMSIS-NN's on 32-bit ones, which need more than the reference kernels.
_KERNEL_STRUCTS = {
    BuiltinOperator.CONV_2D: (80, 64),
    BuiltinOperator.DEPTHWISE_CONV_2D: (80, 64),
    BuiltinOperator.FULLY_CONNECTED: (64, 80),
    BuiltinOperator.AVERAGE_POOL_2D: (32, 48),
    BuiltinOperator.MAX_POOL_2D: (32, 48),
    BuiltinOperator.SOFTMAX: (80, 64),
}
# Memory while a segment is prepared and planned: requests for scratch buffers (12 more than needed), and the
# planner's data of each tensor and each buffer.
_REQUEST, _ROOM = 12, 12
_NOTE, _PLANNED = 24, 40
_SCRATCH_HANDLE = 4
# Scratch buffers that TFLM's own kernels ask for, on every machine.
_OWN_REQUESTS = {
    BuiltinOperator.MEAN: 3,
    BuiltinOperator.SUM: 3,
    BuiltinOperator.REDUCE_MAX: 2,
    BuiltinOperator.REDUCE_MIN: 2,
    BuiltinOperator.ADD_N: 2,
    BuiltinOperator.MIRROR_PAD: 2,
    BuiltinOperator.SVDF: 2,
    BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM: 4,
}
# While an operator is prepared: a struct for each of its tensors, and its zero points.
_TEMPORARY = 48
# By how much structs of a 32-bit target grow without TF_LITE_STATIC_MEMORY: TfLiteTensor, of which each
# input and output has one, and NodeAndRegistration.
_DYNAMIC_TENSOR, _DYNAMIC_NODE = 32, 12
# Reserve for other versions of TFLM, and rounding.
_MARGIN = 256

# The op pack without the package around it, which takes longer to import than all else here.
_PROGRAM = """
import ctypes
import sys
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
from tflite_micro import runtime
for path, size in zip(sys.argv[2::2], sys.argv[3::2]):
    sys.stderr.write("segment\\n")
    sys.stderr.flush()
    model = open(path, "rb").read()
    runtime.Interpreter.from_bytes(model, ["TFLM_ZO_Register"], arena_size=int(size)).print_allocations()
"""


@dataclass(frozen=True)
class Arena:
    """Bytes of the arena that all segments share."""

    bytes: int  # size, a multiple of 16
    bytes_mve: int  # size for a core with vectors (MVE), for which CMSIS-NN's kernels want more
    measured: bool  # True if the recording allocator measured it, False for an upper bound
    least: int  # size below which no build of TFLM can work


def _round(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


# Recorded sizes by the models' digests, because the runs that a plan compares share most of their segments.
_known: dict[bytes, dict[str, int]] = {}


def recorded(models: Sequence[Model]) -> list[dict[str, int]] | None:
    """Returns the bytes that TFLM's recording allocator counts for each model, of one subgraph, on a 64-bit machine:
    "total", "head", "tail" and its structs; None if TFLM is not installed.
    """
    contents = [model.to_bytes() for model in models]
    digests = [hashlib.sha256(content).digest() for content in contents]
    new = {d: i for i, d in enumerate(digests) if d not in _known}
    if new:
        found = _record([models[i] for i in new.values()], [contents[i] for i in new.values()])
        if found is None:
            return None
        _known.update(zip(new, found, strict=True))
    return [_known[digest] for digest in digests]


def _record(models: Sequence[Model], contents: Sequence[bytes]) -> list[dict[str, int]] | None:
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(library_path())]
        for i, (model, content) in enumerate(zip(models, contents, strict=True)):
            path = Path(folder) / f"{i}.tflite"
            path.write_bytes(content)
            arguments += [str(path), str(arena_upper_bound(model))]
        # In a separate process, because TFLM writes to stderr. In that folder, because Python imports from
        # the working directory first, and the user's files must not be imported.
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        *_, said = done.stderr.rpartition("segment\n")
        if said == done.stderr:
            return None  # the package is not there
        reason = " ".join(said.partition("Traceback")[0].split()) or f"exit status {done.returncode}"
        raise ConversionError(f"TFLM refuses the model: {reason}")
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


@dataclass(frozen=True)
class _Kernels:
    """Kernels that a library has."""

    cmsis_nn: bool = True  # True for CMSIS-NN's kernels, False for TFLM's reference kernels
    mve: bool = False  # True for cores with vectors

    def extra(self, op: Operator) -> Extra:
        return extra_memory(op, mve=self.mve) if self.cmsis_nn else Extra()


_KERNELS = _Kernels(False), _Kernels(), _Kernels(mve=True)


def _temporary(op: Operator) -> int:
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    channels = sum(len(t.quantization.scales) if t.quantization is not None else 0 for t in tensors)
    times = 2 if op.builtin in (BuiltinOperator.CONV_2D, BuiltinOperator.DEPTHWISE_CONV_2D) else 1
    return times * (_TEMPORARY * len(tensors) + 4 * channels)


def _need(models: Sequence[Model], recorded: Sequence[dict[str, int]], kernels: _Kernels) -> int:
    """Returns the least that `Network::Init` takes of an arena, without the directory. Each segment adds its persistent
    memory to the tail. The head has the activations of the largest segment, and notes while a segment is being prepared
    and planned. The largest sum of both ends decides.
    """
    tail = _ALLOCATOR[1]
    head = most = 0
    for model, sizes in zip(models, recorded, strict=True):
        graph = model.subgraphs[0]
        extra = {i: kernels.extra(op) for i, op in enumerate(graph.operators)}
        scratch = {i: e.scratch for i, e in extra.items() if e.scratch > 0}
        own = sizes["tail"] - _ALLOCATOR[0] - _SEGMENT[0] + _SEGMENT[1]
        for name, (wide, narrow) in _RECORDED_STRUCTS.items():
            own -= sizes.get(name, 0) * (wide - narrow) // wide
        for op in graph.operators:
            wide, narrow = _KERNEL_STRUCTS.get(op.builtin, (0, 0))
            own -= wide - (narrow if kernels.cmsis_nn else min(wide, narrow))
        own += _SCRATCH_HANDLE * len(scratch) + sum(_round(e.persistent) for e in extra.values())
        variables = sum(_round(t.size * np.dtype(DTYPES[t.type]).itemsize) for t in graph.tensors if t.is_variable)
        ports = len(graph.inputs) + len(graph.outputs)
        structs = ports * (_RECORDED_STRUCTS["Persistent TfLiteTensor data"][1] + 20) + 32
        asked = len(scratch) + sum(_OWN_REQUESTS.get(op.builtin, 0) for op in graph.operators)
        requests = _REQUEST * (_ROOM + asked)
        # Operators are prepared one after the other, all of their structs at the tail at last.
        preparing = requests + max(map(_temporary, graph.operators), default=0) - variables - structs
        buffers = buffers_of(graph, scratch)
        notes = _NOTE * (len(graph.tensors) + asked)
        notes += _PLANNED * (len(buffers.sizes) + asked - len(scratch))
        planning = requests + _round(notes + 16) - structs
        # Kernels may have scratch buffers on every machine; the recorded size includes them.
        alone = planned_bytes(buffers_of(graph, {}))
        head = max(head, alone, planned_bytes(buffers) + max(0, sizes["head"] - alone))
        tail += own
        most = max(most, tail + max(head, preparing, planning))
    return most


def _bound(models: Sequence[Model], kernels: _Kernels) -> int:
    """Returns an upper bound of the arena, for a machine that cannot record it."""
    tail = sum(
        sum(t.size * 4 for t in m.subgraphs[0].tensors if t.is_variable)
        + 64 * len(m.subgraphs[0].tensors)
        + 256 * len(m.subgraphs[0].operators)
        for m in models
    )
    extra = [[kernels.extra(op) for op in m.subgraphs[0].operators] for m in models]
    head = max(
        sum(t.size for t in m.subgraphs[0].tensors if not t.is_constant and not t.is_variable)
        + max((e.scratch for e in own), default=0)
        for m, own in zip(models, extra, strict=True)
    )
    return head + tail + sum(e.persistent + 16 for own in extra for e in own) + 4096


def arenas_of(models: Sequence[Sequence[Model]], tensors: Sequence[int], *, static_memory: bool = True) -> list[Arena]:
    """Returns the arenas of several models, each of all its segments as models of their own, by the numbers of their
    trainable tensors. `static_memory`: TFLM is built with TF_LITE_STATIC_MEMORY. Raises ConversionError if TFLM refuses
    a segment.
    """
    sizes = recorded([segment for segments in models for segment in segments])
    found, at = list[Arena](), 0
    for segments, count in zip(models, tensors, strict=True):
        own = None if sizes is None else sizes[at : at + len(segments)]
        found.append(_arena(segments, own, count, static_memory))
        at += len(segments)
    return found


def _arena(
    models: Sequence[Model], recorded: Sequence[dict[str, int]] | None, tensors: int, static_memory: bool
) -> Arena:
    more = _round(_DIRECTORY_ENTRY * tensors) + (0 if static_memory else sum(map(_dynamic, models)))
    if recorded is None:
        scalar, mve = (_bound(models, _Kernels(mve=v)) for v in (False, True))
        variables = sum(t.size for m in models for t in m.subgraphs[0].tensors if t.is_variable)
        return Arena(_round(scalar + more), _round(mve + more), False, variables)
    scalar, mve = (_need(models, recorded, _Kernels(mve=v)) for v in (False, True))
    # Versions and kernels differ by less than a sixteenth.
    least = _need(models, recorded, _Kernels(cmsis_nn=False)) // 16 * 15
    more += _MARGIN
    return Arena(_round(scalar + more), _round(mve + more), True, least)


# --- TFLM's greedy planner, which places activations alike on every machine ---


@dataclass(frozen=True)
class Buffers:
    """Buffers of a graph, in the order in which TFLM's planner takes them."""

    sizes: list[int]  # bytes of each buffer, multiples of 16
    # first and last operator that need each buffer, counted from 1; inputs are needed from 0 on
    spans: list[tuple[int, int]]


def buffers_of(graph: Subgraph, scratch: Mapping[int, int]) -> Buffers:
    """Returns the activations of a graph, and scratch buffers of some bytes, by the operator's number; 0: none."""
    first = dict.fromkeys(graph.inputs, 0)
    last = dict(first)
    for number, op in enumerate(graph.operators, 1):
        for tensor in op.outputs:
            first.setdefault(tensor, number)
            last[tensor] = number
        for used in op.inputs:
            if used is not None:
                last[used] = number
    for tensor in graph.outputs:
        first.setdefault(tensor, len(graph.operators))
        last[tensor] = len(graph.operators)
    sizes, spans = [], []
    for tensor in graph.tensors:
        size = tensor.size * np.dtype(DTYPES[tensor.type]).itemsize
        if tensor.is_constant or tensor.is_variable or size == 0:
            continue
        sizes.append(_round(size))
        spans.append((first.get(tensor, -1), last.get(tensor, -1)))
    for number, size in scratch.items():
        if size > 0:
            sizes.append(_round(size))
            spans.append((number + 1, number + 1))
    return Buffers(sizes, spans)


def head_ends(models: Sequence[Model]) -> tuple[int, ...]:
    """Returns the bytes at an arena's beginning that activations of each model and of those before it take with any
    kernels; at most those of all models without scratch.
    """
    graphs, ends = [model.subgraphs[0] for model in models], [0]
    most = max(planned_bytes(buffers_of(graph, {})) for graph in graphs)
    for graph in graphs:
        extra = [{i: k.extra(op).scratch for i, op in enumerate(graph.operators)} for k in _KERNELS]
        unknown = any(op.builtin in _OWN_REQUESTS for op in graph.operators)
        ends.append(most if unknown else max(ends[-1], *(planned_bytes(buffers_of(graph, e)) for e in extra)))
    return tuple(min(end, most) for end in ends[1:])


def planned_bytes(buffers: Buffers) -> int:
    """Returns the bytes that `tflite::GreedyMemoryPlanner` needs, which places the largest buffers first,
    each in the first gap between the buffers of the same time.
    """
    # Of equal size the later ones first.
    order = sorted(reversed(range(len(buffers.sizes))), key=lambda i: -buffers.sizes[i])
    placed: list[tuple[int, int]] = []  # offset, number
    end = 0
    for number in order:
        begins, ends = buffers.spans[number]
        at = first_gap(
            (
                (offset, offset + buffers.sizes[other])
                for offset, other in placed
                if buffers.spans[other][0] <= ends and begins <= buffers.spans[other][1]
            ),
            buffers.sizes[number],
        )
        placed.append((at, number))
        end = max(end, at + buffers.sizes[number])
    return end


def first_gap(taken: Iterable[tuple[int, int]], size: int, begin: int = 0) -> int:
    """Returns the lowest offset from `begin` on where `size` bytes are free. `taken` has the first byte of each piece
    in use, and the byte behind its last one.
    """
    at = begin
    for first, end in sorted(taken):
        if at + size <= first:
            break
        at = max(at, end)
    return at
