"""The macros of a model and its run: ``zo_config.h``."""

from __future__ import annotations

import re

import numpy as np

from ..converters.errors import ConversionError
from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..converters.model.graph import Quantization, Tensor
from ..converters.model.schema import TensorType
from ..core import LOSS_OVER, MEASUREMENT_BYTES
from ..training.lowering import LoweredRun
from .device_model import bytes_of_sample
from .drift import DriftLayer
from .sizes import Ram, log_size_of
from .source_text import fill, own
from .tables import C_TYPES, loss_output


def config_source(
    model: Model,
    metadata: ZoMetadata,
    plan: LoweredRun,
    ram: Ram,
    *,
    name: str,
    model_name: str,
    command: str,
    drift: DriftLayer | None,
    sequence: int,
    **sizes: int,
) -> str:
    """Returns the text of ``zo_config.h`` for a ZO model with its metadata, the plan of its run, and the run's RAM.
    `name` is an identifier, `model_name` the name as given, `command` the command line for the first line, and `sizes`
    further numbers of the template, by place.
    """
    loss, last = metadata.loss, len(metadata.segments) - 1
    label = metadata.segments[last].input_index("label")
    assert loss is not None and label is not None
    readers = {
        port.index: (k, i)
        for k, segment in reversed(list(enumerate(metadata.segments)))
        for i, port in enumerate(segment.inputs)
        if port.role == "input" and port.index is not None
    }
    ports = []
    for number, (k, i) in sorted(readers.items()):
        size = bytes_of_sample(model, k, "inputs", i, metadata.batch)
        ports.append(_port(f"INPUT_{number}", model.subgraphs[k].inputs[i], size))
    k, i, _, size = loss_output(model, metadata)
    ports.append(_port("OUTPUT", model.subgraphs[k].outputs[i], size))
    of_int8 = loss.kind == "mse"
    return fill(
        "zo_config.h.in",
        **own(name),
        **sizes,
        name=name,
        command=command,
        drift=drift,
        sequence=sequence,
        over=LOSS_OVER[loss.over],
        model_name=model_name,
        plan=plan,
        ram=ram,
        log=log_size_of(metadata, plan),
        measurement_bytes=MEASUREMENT_BYTES,
        ports=ports,
        label="one int32_t, the class" if loss.of_samples else f"{'int8_t' if of_int8 else 'int32_t'} each",
        label_bytes=bytes_of_sample(model, last, "inputs", label, metadata.batch),
        classes=loss.classes if loss.of_classes else 0,
        segments=len(metadata.segments),
        batch=metadata.batch,
        inputs=len(readers),
        readers=sum(p.role == "input" for s in metadata.segments for p in s.inputs),
    )


def _port(name: str, tensor: Tensor, size: int) -> dict[str, object]:
    """Returns what the macros of an input or output say."""
    quantization = tensor.quantization
    if tensor.type == TensorType.FLOAT32:
        quantization = Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
    if quantization is None or not len(quantization.scales):
        raise ConversionError(f"tensor `{tensor.name}` must have a scale. Received: none. Convert it again.")
    scale = f"{quantization.scale:.9g}"
    return {
        "name": name,
        "type": C_TYPES[tensor.type],
        "scale": scale if re.search("[.e]", scale) else f"{scale}.0",
        "zero_point": quantization.zero_point,
        "shape": tensor.shape[1:] or [1],
        "bytes": size,
    }
