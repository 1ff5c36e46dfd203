"""The model's description as constant tables: ``zo_model.cc``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..converters.errors import ConversionError
from ..converters.initial_weights import step_multipliers
from ..converters.metadata import ZoMetadata
from ..converters.model import Model, Tensor
from ..converters.model.schema import TensorType
from ..core import SeedLogHeader
from ..core.loader import constants
from ..logs import fingerprint
from ..training.lowering import LoweredRun
from ..training.plan import model_loss
from .boundaries import Boundaries, boundaries_of
from .device_model import DeviceModel, bytes_of_sample
from .drift import DriftLayer
from .source_text import fields, fill, own

_MAX_INPUTS = 8  # kMaxInputs
#: Types of inputs, and of the output that the loss belongs to, in C.
C_TYPES: Final = {
    TensorType.INT8: "int8_t",
    TensorType.UINT8: "uint8_t",
    TensorType.INT16: "int16_t",
    TensorType.INT32: "int32_t",
    TensorType.FLOAT32: "float",
}


def _segments(
    device: DeviceModel, metadata: ZoMetadata, boundaries: Boundaries, arrays: Sequence[str]
) -> tuple[list[list[str | int]], list[tuple[int, int]]]:
    """Returns the rows of the segments and of their skips."""
    rows, skips = list[list[str | int]](), list[tuple[int, int]]()
    for k, (segment, model) in enumerate(zip(metadata.segments, device.segments, strict=True)):
        owned = device.in_segment[k]
        first = device.number(owned[0]) if owned else 0
        entering = segment.input_index("boundary")
        # The fields that a frozen segment lacks are the last ones.
        graph = model.subgraphs[0]
        inputs, outputs = range(len(graph.inputs)), range(len(graph.outputs))
        found = [entering, *(segment.input_index(role) for role in ("label", "command"))]
        found = [i if i in inputs else None for i in found]
        of_outputs = (segment.output_index(role) for role in ("boundary", "loss", "status"))
        found += [i if i in outputs else None for i in of_outputs]
        ports = ["kNone" if i is None else str(i) for i in found]
        size = 0 if entering is None else bytes_of_sample(model, 0, "inputs", entering, metadata.batch)
        places = boundaries.at.get(k, -1), boundaries.passing.get(k, -1)
        kept = int(k in device.plan.memory.recomputed), int(k in boundaries.of_parts), boundaries.limits.get(k, 0)
        rows.append([arrays[k], *ports, first, len(owned), size, *places, len(skips), len(segment.skips), *kept])
        skips += [(index, entered) for entered, index in segment.skips.items()]
    return rows, skips


def _inputs(model: Model, metadata: ZoMetadata) -> list[tuple[int, int, int, int]]:
    """Returns the rows of the segments' inputs that read an original one, the first reader of each first."""
    found: dict[int, list[tuple[int, int, int, int]]] = {}
    for k, segment in enumerate(metadata.segments):
        for i, port in enumerate(segment.inputs):
            if port.role != "input" or port.index is None:
                continue
            _check_type(f"input {port.index}", model.subgraphs[k].inputs[i])
            row = k, i, port.index, bytes_of_sample(model, k, "inputs", i, metadata.batch)
            found.setdefault(port.index, []).append(row)
    count = len(metadata.original.inputs)
    if count > _MAX_INPUTS:
        raise ConversionError(f"the model has {count} inputs; firmware feeds {_MAX_INPUTS} at most")
    if unread := sorted(set(range(count)) - set(found)):
        raise ConversionError(f"input {unread[0]} is read by no segment: remove it from the model")
    return [found[i][0] for i in range(count)] + [row for i in range(count) for row in found[i][1:]]


def _check_type(what: str, tensor: Tensor) -> None:
    if tensor.type not in C_TYPES:
        raise ConversionError(f"{what} is {tensor.type_name}, which firmware does not support; convert it to int8")


def _check_fed(device: DeviceModel, metadata: ZoMetadata, inputs: Sequence[tuple[int, int, int, int]]) -> None:
    """Raises ConversionError if the tables have no source for an input of a segment."""
    for k, (segment, model) in enumerate(zip(metadata.segments, device.segments, strict=True)):
        fed: set[int | None] = {*(row[1] for row in inputs if row[0] == k), *segment.skips.values()}
        fed |= {segment.input_index(role) for role in ("boundary", "label", "command")}
        for i, tensor in enumerate(model.subgraphs[0].inputs):
            if i not in fed:
                raise ConversionError(f"nothing feeds input {i}, `{tensor.name}`, of segment {k}")


def loss_output(model: Model, metadata: ZoMetadata) -> tuple[int, int, int, int]:
    """Returns the output that the loss reads: segment, its numbers there and in the model, bytes per sample."""
    assert metadata.loss is not None
    for k, segment in enumerate(metadata.segments):
        for i, port in enumerate(segment.outputs):
            if port.role != "output" or port.index != metadata.loss.output:
                continue
            # Later segments overwrite the outputs of earlier ones, except their own inputs.
            outputs, last = model.subgraphs[k].outputs, len(metadata.segments) - 1
            _check_type(f"output {port.index}", outputs[i])
            boundary = segment.output_index("boundary")
            entering = None if boundary is None else outputs[boundary]
            if k != last and (k != last - 1 or outputs[i] is not entering):
                raise ConversionError("the output that the loss belongs to does not last to the loss")
            return k, i, port.index, bytes_of_sample(model, k, "outputs", i, metadata.batch)
    raise ConversionError("the model has no output that its loss belongs to")


def _trainable(
    model: Model, metadata: ZoMetadata, device: DeviceModel, wanted: Mapping[str, bool]
) -> list[dict[str, Any]]:
    """Returns the trainable tensors with their factors, and rows with the fields of the run's features."""
    factors: Mapping[str, np.ndarray | None] = {**step_multipliers(model), **device.plan.multipliers}
    found = []
    for i in device.trained:
        t, row = metadata.trainable[i], list[str | int]()
        factor = factors.get(t.name)
        if wanted["ZO_WITH_MULTIPLIERS"]:
            row += ["nullptr" if factor is None else f"kMultiplier{i}", t.channels, t.inner]
        if wanted["ZO_WITH_BLOCKS"]:
            row.append(t.block)
        if wanted["ZO_WITH_BIASES"]:
            row.append(constants.ZO_TENSOR_INT32 if t.bias else constants.ZO_TENSOR_INT8)
        found.append({"number": i, "layer": t.layer, "row": row, "factor": factor})
    return found


def run_settings(plan: LoweredRun) -> str:
    """Returns the settings of a run as an initializer of ``zo_control_settings``."""
    return f"{{\n{fields(plan.settings.numbers())}\n}}"


def _run(device: DeviceModel, boundaries: Boundaries, names: Mapping[str, str]) -> str:
    """Returns the definitions of a run."""
    plan = device.plan
    return fill(
        "zo_run.cc.in",
        **names,
        plan=plan,
        number=device.number,  # the device's numbers of tensors
        boundaries=boundaries,
        updates=boundaries.updates,
        reads=[
            step.segment or 0 if step.tensor is None else device.number(step.tensor)
            for step in ([] if plan.program is None else plan.program.steps)
        ],
    )


def model_source(
    model: Model,
    metadata: ZoMetadata,
    device: DeviceModel,
    *,
    name: str,
    arrays: Mapping[str, bytes],
    least_arena: int,
    command: str,
    wanted: Mapping[str, bool],
    self_test: str,
    drift: DriftLayer | None,
) -> tuple[str, str]:
    """Returns the text of ``zo_model.cc``, and the tables of the model, which ``zo_trainer.cc`` has: its compiler is to
    know them. `name` and `command` are as for `config_source`. `arrays` has the contents of the segments' arrays by
    name, in order; `least_arena` the bytes of an arena below which no build of TFLM can work; `wanted` the features
    that the run needs, by the macro's name; `self_test` the self-test's table; `drift` the layer at which the device
    reads the drift. Raises ConversionError if firmware cannot feed the model's inputs.
    """
    loss = metadata.loss
    assert loss is not None
    plan, boundaries, inputs = device.plan, boundaries_of(model, metadata, device), _inputs(model, metadata)
    _check_fed(device, metadata, inputs)
    last, own_loss = metadata.segments[-1].input_index("label"), model_loss(loss)
    assert last is not None
    label_bytes = bytes_of_sample(model, len(metadata.segments) - 1, "inputs", last, metadata.batch)
    segments, skips = _segments(device, metadata, boundaries, list(arrays))
    tables = fill(
        "zo_model_tables.cc.in",
        **own(name),
        segments=segments,
        skips=skips,
        trainable=_trainable(model, metadata, device, wanted),
        least_arena=least_arena,
        frozen_checksum=f"0x{device.frozen_checksum:08x}",
        shared_arena=boundaries.shared and boundaries.shared + boundaries.bytes,
        shared_activations=boundaries.shared,
        inputs=inputs,
        fingerprint=fingerprint(model),
        layerwise=bool(plan.tasks),
        batch=metadata.batch,
        label_bytes=label_bytes,
        loss=own_loss.struct,
        loss_name=loss.kind,
        loss_parts=list(own_loss.parts),
        classes=loss.classes,
        output=loss_output(model, metadata),
        limit=127 - metadata.headroom,
    )
    source = fill(
        "zo_model.cc.in",
        **own(name),
        command=command,
        log_header=b"" if plan.tasks else SeedLogHeader(plan.settings, fingerprint(model), 0).to_bytes(),
        self_test=self_test,
        drift=drift,
        run=_run(device, boundaries, own(name)),
        arrays=arrays,
    )
    return source, tables
