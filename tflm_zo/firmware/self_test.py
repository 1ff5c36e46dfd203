"""The operators' outputs for the samples of the self-test."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..converters import constants
from ..converters.kernels import depends_on_build
from ..converters.metadata import ZoMetadata, ZoPort, read_metadata, with_metadata
from ..converters.model import Model, Operator, Tensor
from ..converters.model.schema import TensorType
from ..converters.passes.layer_names import shown_name
from ..data import ModelError
from ..runtime import InvokeError, RuntimeUnavailableError, load_fastest
from .device_model import DeviceModel
from .source_text import fill

# Their outputs are about updates of weights, which trainers do themselves.
_UNCOMPARED = (constants.SEED_REPLAY, constants.UPDATE, constants.PERTURB)


def noise(batch: int, inputs: int, number: int, count: int) -> NDArray[np.int8]:
    """Returns an input of the self-test's samples, int8 [batch, count], as ``ops/device/zo_self_test.cc`` makes it:
    that of a number, for a model with so many inputs.
    """
    first = np.arange(batch, dtype=np.uint32) * np.uint32(inputs) + np.uint32(number)
    x: NDArray[np.uint32] = first[:, None] * np.uint32(0x10001) + np.arange(count, dtype=np.uint32)
    x = (x ^ (x >> 15)) * np.uint32(0x2C1B3C6D)
    x = (x ^ (x >> 12)) * np.uint32(0x297A2D39)
    values: NDArray[np.int8] = ((x ^ (x >> 15)) % 256 - np.uint32(128)).astype(np.int8)
    return values


def _with_all_outputs(model: Model) -> tuple[Model, dict[tuple[int, int], int]]:
    """Returns a ZO model whose operators all have outputs, and their numbers by segment and tensor."""
    metadata, own = read_metadata(model), model.copy()
    names, segments = list(metadata.original.outputs), []
    numbers = dict[tuple[int, int], int]()
    for k, (segment, graph) in enumerate(zip(metadata.segments, own.subgraphs, strict=True)):
        ports = list(segment.outputs)
        for i, port in enumerate(segment.outputs):
            if port.role == "output" and port.index is not None:
                numbers[k, i] = port.index
        for tensor in (t for op in graph.operators if op.code.name not in _UNCOMPARED for t in op.outputs):
            if tensor not in graph.outputs:
                numbers[k, len(ports)] = len(names)
                ports.append(ZoPort("output", f"zo_self_test_{len(names)}", len(names)))
                names.append(f"zo_self_test_{len(names)}")
                graph.outputs.append(tensor)
        segments.append(dataclasses.replace(segment, outputs=tuple(ports)))
    original = dataclasses.replace(metadata.original, outputs=tuple(names))
    own.signatures = []
    changed = dataclasses.replace(metadata, segments=tuple(segments), original=original)
    return with_metadata(own, changed), numbers


def _computed(model: Model) -> list[list[tuple[Operator, list[NDArray[Any]]]]]:
    """Returns the operators of each segment that compute activations or losses, with their outputs."""
    own, numbers = _with_all_outputs(model)
    if any(t.type == TensorType.FLOAT32 for graph in own.subgraphs for t in graph.inputs):
        raise ModelError("an input is floating-point, for which there is no noise")
    runtime = load_fastest(own)
    count = len(runtime.metadata.original.inputs)
    inputs = [runtime.input_details(i)[:2] for i in range(count)]
    runtime.set_inputs(
        *(
            noise(shape[0], count, i, int(np.prod(shape[1:])) * dtype.itemsize).view(dtype).reshape(shape)
            for i, (shape, dtype) in enumerate(inputs)
        )
    )
    shape, dtype, *_ = runtime.label_details()
    runtime.set_labels(np.zeros(shape, dtype))
    runtime.invoke(runtime.command(loss=True))
    outputs = runtime.outputs()

    def value(k: int, tensor: Tensor) -> NDArray[Any]:
        i = own.subgraphs[k].outputs.index(tensor)
        role = runtime.metadata.segments[k].outputs[i].role
        if role == "boundary":
            return runtime.boundary(k + 1)
        return runtime.losses() if role == "loss" else outputs[numbers[k, i]]

    return [
        [(op, [value(k, t) for t in op.outputs]) for op in graph.operators if op.code.name not in _UNCOMPARED]
        for k, graph in enumerate(own.subgraphs)
    ]


def _name(op: Operator, metadata: ZoMetadata) -> str:
    filters = {t.name: t.layer for t in metadata.trainable}
    named = [filters[t.name] for t in op.inputs if t is not None and t.name in filters]
    layer = named[0] if named else shown_name(next(t.name for t in (*op.outputs, *op.inputs) if t is not None))
    return f"{layer} ({op.code.name.removeprefix(constants.OP_PREFIX)})"


def self_test_source(model: Model, device: DeviceModel) -> tuple[str, str]:
    """Returns the table of the operators' outputs, and the reason why it is missing, or "". The outputs are those of
    the ZO model, which has a loss; `device` has the operators as the device runs them.
    """
    metadata, why = read_metadata(model), ""
    try:
        computed = _computed(model)
    except (InvokeError, ModelError, RuntimeUnavailableError) as error:
        computed, why = [], str(error)
    codes = {op.code.name: op.code for m in device.segments for op in m.subgraphs[0].operators}
    kinds, rows = sorted(codes), list[tuple[str | None, int, int, int]]()
    for k, (segment, own) in enumerate(zip(device.segments, computed, strict=bool(computed))):
        values = iter(own)
        for op in segment.subgraphs[0].operators:
            layer, checksum = None, 0
            if op.code.name not in _UNCOMPARED:
                known, outputs = next(values)
                # A level more or less in a SOFTMAX of int16 is no fault of the device.
                layer = None if depends_on_build(known) else _name(known, metadata)
                for output in outputs:
                    checksum = zlib.crc32(np.ascontiguousarray(output).tobytes(), checksum)
            rows.append((layer, checksum, k, kinds.index(op.code.name)))
    return fill("zo_self_test_tables.cc.in", codes=[codes[kind] for kind in kinds], rows=rows), why
