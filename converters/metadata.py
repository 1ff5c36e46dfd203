# SPDX-License-Identifier: Apache-2.0
"""What a ZO model says about itself: the metadata entry ``tflm_zo``, UTF-8 JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final

from .constants import METADATA_NAME
from .errors import ConversionError
from .model import Model

#: Version of the metadata; readers refuse others.
METADATA_VERSION: Final = 1

#: Losses of a vector of logits and one class.
SOFTMAX_KINDS: Final = ("cross_entropy", "floor_log2")


@dataclasses.dataclass(frozen=True)
class ZoLoss:
    """The loss.

    Attributes:
        kind: "cross_entropy", "floor_log2", "binary_cross_entropy" or "mse".
        elements: values per sample (classes, outputs).
        scale: real value of one LSB of what the loss reads; softmax's beta is part of it.
        zero_point: of what the loss reads.
        output: number of the original output that the loss belongs to. The loss of a classifier reads the
            logits before a SOFTMAX or LOGISTIC; the output that people see stays the probabilities.
        squashed: whether a SOFTMAX or LOGISTIC lies between what the loss reads and that output.
    """

    kind: str
    elements: int
    scale: float
    zero_point: int
    # Metadata written before these keys existed do not have them.
    output: int = 0
    squashed: bool = True

    @property
    def of_classes(self) -> bool:
        """Whether a label is one class: a cross-entropy of softmax, or the floor-log2 loss in its place."""
        return self.kind in SOFTMAX_KINDS


@dataclasses.dataclass(frozen=True)
class ZoTrainable:
    """A trainable filter.

    Attributes:
        name: name of the filter tensor, as in the original.
        operator: e.g. "CONV_2D"; of a wide layer, too, what it was in the original.
        layer: short name of the layer, unique in the model.
        stream: number in execution order over the whole model: selects the random stream.
        block: index into the blocks.
        segment: index into the segments.
        shape: shape of the filter.
        size: number of weights.
        channels: output channels.
        inner: consecutive weights of one channel (the channel of weight i is i // inner % channels).
        requantized_channels: scales that head-room changed.
        updated: number of weights that are trained; None: all.
        wide: whether the forward pass reads its weights with their fractions, as 16 bits.
    """

    name: str
    operator: str
    layer: str
    stream: int
    block: int
    segment: int
    shape: tuple[int, ...]
    size: int
    channels: int
    inner: int
    requantized_channels: int
    updated: int | None = None
    wide: bool = False

    @property
    def trained(self) -> int:
        """Number of weights that are trained."""
        return self.size if self.updated is None else self.updated


@dataclasses.dataclass(frozen=True)
class ZoNodes:
    """A layer that carries nodes, see ops/core/zo_node_layer.h.

    Attributes:
        trainable: number of its filter.
        form: "plain", "max_pool" or "mean".
        input_segment: its input is the boundary that enters this segment; 0: original input 0.
        output_segment: its output, before any pooling, enters this segment.
        node_segment: its nodes enter this segment: the first one of the suffix that queries re-run.
        count: nodes per sample.
        head: whether the nodes are what the loss reads.
        geometry: the fields of ``zo_node_layer`` but the form.
    """

    trainable: int
    form: str
    input_segment: int
    output_segment: int
    node_segment: int
    count: int
    head: bool
    geometry: dict[str, int]


@dataclasses.dataclass(frozen=True)
class ZoPort:
    """An input or output of a segment, in the order of its subgraph.

    Attributes:
        role: "boundary", "input", "label", "command"; "output", "boundary", "loss", "status".
        name: signature name for roles "input" and "output", else None.
        index: number of the original input or output for these roles, else None.
    """

    role: str
    name: str | None = None
    index: int | None = None


@dataclasses.dataclass(frozen=True)
class ZoSegment:
    """A segment: subgraph of the same number."""

    inputs: tuple[ZoPort, ...]
    outputs: tuple[ZoPort, ...]

    def input_index(self, role: str) -> int | None:
        """Number of the first input of that role, or None."""
        return next((i for i, p in enumerate(self.inputs) if p.role == role), None)

    def output_index(self, role: str) -> int | None:
        """Number of the first output of that role, or None."""
        return next((i for i, p in enumerate(self.outputs) if p.role == role), None)


@dataclasses.dataclass(frozen=True)
class ZoOriginal:
    """Names of the original model's inputs and outputs, made unique."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ZoMetadata:
    """All of it; see ARCHITECTURE.md for the JSON.

    Attributes:
        head_room: largest perturbation, LSB.
        update_bits: 8 or 16.
        max_queries: seeds in one UPDATE.
        command_words: int32 words of ``zo_command``.
        batch: samples per invoke.
        replay: whether SEED_REPLAY is part of the model.
        loss: None where the model has none.
        blocks: names of the blocks.
        trainable: in order of their streams.
        segments: in execution order.
        original: the model before.
        nodes: layers that carry nodes, in execution order.
        algorithm: name of what the model was made for; "": none in particular.
        version: format of the metadata.
    """

    head_room: int
    update_bits: int
    max_queries: int
    command_words: int
    batch: int
    replay: bool
    loss: ZoLoss | None
    blocks: tuple[str, ...]
    trainable: tuple[ZoTrainable, ...]
    segments: tuple[ZoSegment, ...]
    original: ZoOriginal
    nodes: tuple[ZoNodes, ...] = ()
    algorithm: str = ""
    version: int = METADATA_VERSION

    def to_json(self) -> str:
        """The metadata as JSON text, deterministic."""
        content = {"version": self.version, **dataclasses.asdict(self)}
        for trainable in content["trainable"]:
            if trainable["updated"] is None:
                del trainable["updated"]
            if not trainable["wide"]:
                del trainable["wide"]
        for segment in content["segments"]:
            for side in ("inputs", "outputs"):
                segment[side] = [
                    {key: value for key, value in port.items() if value is not None} for port in segment[side]
                ]
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> ZoMetadata:
        """Reads JSON text; unknown keys are ignored.

        Raises:
            ConversionError: it is malformed or of another version.
        """
        try:
            content = json.loads(text)
            version = content["version"]
            if version != METADATA_VERSION:
                raise ConversionError(
                    f"metadata of this ZO model has version {version}, not {METADATA_VERSION}; "
                    "inject the original model again or update tflm_zo"
                )
            loss = content["loss"]
            original = content["original"]
            if loss is not None:
                output = loss.setdefault("output", 0)
                if type(output) is not int or not 0 <= output < len(original["outputs"]):
                    raise ValueError(f"the loss belongs to output {output!r}, which the model does not have")
            return cls(
                head_room=int(content["head_room"]),
                update_bits=int(content["update_bits"]),
                max_queries=int(content["max_queries"]),
                command_words=int(content["command_words"]),
                batch=int(content["batch"]),
                replay=bool(content.get("replay", True)),
                loss=None if loss is None else _build(ZoLoss, loss),
                blocks=tuple(content["blocks"]),
                trainable=tuple(
                    _build(ZoTrainable, t | {"shape": tuple(t["shape"])}) for t in content["trainable"]
                ),
                segments=tuple(
                    ZoSegment(
                        tuple(_build(ZoPort, p) for p in s["inputs"]),
                        tuple(_build(ZoPort, p) for p in s["outputs"]),
                    )
                    for s in content["segments"]
                ),
                original=ZoOriginal(tuple(original["inputs"]), tuple(original["outputs"])),
                nodes=tuple(_build(ZoNodes, n) for n in content.get("nodes", ())),
                algorithm=str(content.get("algorithm", "")),
            )
        except ConversionError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            raise ConversionError(f"metadata «{METADATA_NAME}» of the model is damaged: {e}") from e


def _build(cls: Any, content: dict[str, Any]) -> Any:
    """An instance from the keys that it knows."""
    return cls(**{f.name: content[f.name] for f in dataclasses.fields(cls) if f.name in content})


def read_metadata(model: Model) -> ZoMetadata:
    """What a ZO model says about itself.

    Raises:
        ConversionError: it is no ZO model, or its metadata is damaged or of another version.
    """
    entry = model.find_metadata(METADATA_NAME)
    if entry is None:
        raise ConversionError("this is no ZO model (it has no metadata «tflm_zo»); inject it first")
    return ZoMetadata.from_json(entry.buffer.data)
