"""The macros of a model and its run: ``zo_config.h``."""

from __future__ import annotations

import re

from ..converters.errors import ConversionError
from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..converters.model.graph import Tensor
from ..core import MEASUREMENT_BYTES
from ..training.lowering import LoweredRun
from .device_model import bytes_of_sample
from .sizes import Ram, log_size_of
from .source_text import fill, own, string
from .tables import loss_output


def config_source(
    model: Model,
    metadata: ZoMetadata,
    plan: LoweredRun,
    ram: Ram,
    *,
    name: str,
    model_name: str,
    command: str,
    **sizes: int,
) -> str:
    """Returns the text of ``zo_config.h``.

    Args:
        model: the ZO model.
        metadata: the model's metadata.
        plan: plan of the run.
        ram: RAM of the run.
        name: name of the model, an identifier.
        model_name: name of the model as it was given.
        command: command line, for the file's first line.
        **sizes: further numbers of the template, by place.
    """
    note = (
        "from TFLM's recording allocator, for 32-bit targets and CMSIS-NN's\n"
        " * kernels, which need more than TFLM's reference kernels do."
        if ram.arena.measured
        else "an upper bound: the tflite-micro package, which measures it,\n"
        " * was not there; pip install 'tflm_zo[tflm]' and generate it again."
    )
    loss, last = metadata.loss, len(metadata.segments) - 1
    label = metadata.segments[last].input_index("label")
    assert loss is not None and label is not None
    log, names = log_size_of(metadata, plan), own(name)
    readers = {
        port.index: (k, i)
        for k, segment in reversed(list(enumerate(metadata.segments)))
        for i, port in enumerate(segment.inputs)
        if port.role == "input" and port.index is not None
    }
    ports = []
    for number, (k, i) in sorted(readers.items()):
        size = bytes_of_sample(model, k, "inputs", i, metadata.batch)
        ports.append(_port(f"{names['ZO']}_INPUT_{number}", model.subgraphs[k].inputs[i], size))
    k, i, _, size = loss_output(model, metadata)
    ports.append(_port(f"{names['ZO']}_OUTPUT", model.subgraphs[k].outputs[i], size))
    of_int8 = loss.kind == "mse"
    return fill(
        "zo_config.h.in",
        **names,
        **sizes,
        name=name,
        command=command,
        name_string=string(model_name),
        words="\n".join(f" *   {k}: {v}" for k, v in plan.words.items()),
        arena_note=note,
        arena_bytes=ram.arena.bytes,
        arena_bytes_mve=ram.arena.bytes_mve,
        workspace_bytes=ram.workspace,
        objects_bytes=ram.objects,
        stack_bytes=ram.stack,
        header_bytes=log.header,
        record_bytes=log.record,
        slot_bytes=log.slot,
        measurement_bytes=MEASUREMENT_BYTES,
        ports="\n\n".join(ports),
        label="one int32_t, the class" if loss.of_classes else f"{'int8_t' if of_int8 else 'int32_t'} each",
        label_bytes=bytes_of_sample(model, last, "inputs", label, metadata.batch),
        classes=f"#define {names['ZO']}_CLASSES {loss.elements}\n" if loss.of_classes else "",
        segments=len(metadata.segments),
        batch=metadata.batch,
        inputs=len(readers),
        readers=sum(p.role == "input" for s in metadata.segments for p in s.inputs),
        steps=int(plan.settings.steps),
        samples=int(plan.settings.samples),
    )


def _port(name: str, tensor: Tensor, size: int) -> str:
    """Returns the macros of an input or output."""
    quantization = tensor.quantization
    if quantization is None or not len(quantization.scales):
        raise ConversionError(f"tensor `{tensor.name}` must have a scale. Received: none. Convert it again.")
    scale = f"{quantization.scale:.9g}"
    shape = ", ".join(map(str, tensor.shape[1:])) or "1"
    return (
        f"#define {name}_SCALE {scale if re.search('[.e]', scale) else f'{scale}.0'}f\n"
        f"#define {name}_ZERO_POINT ({quantization.zero_point})\n"
        f"#define {name}_SHAPE {{{shape}}}\n"
        f"#define {name}_BYTES {size}"
    )
