"""The editable model."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from ...io.files import write_output
from ..errors import ConversionError
from .graph import Buffer, OperatorCode, Subgraph, Tensor


@dataclasses.dataclass(eq=False)
class Metadata:
    """A metadata entry; the meaning of the bytes depends on the name."""

    name: str
    buffer: Buffer


@dataclasses.dataclass(eq=False)
class Signature:
    """A signature of a model."""

    key: str  #: name of the signature.
    subgraph: Subgraph  #: subgraph that the signature runs.
    #: (name, tensor) pairs of the inputs, in the order of the file.
    inputs: list[tuple[str, Tensor]] = dataclasses.field(default_factory=list)
    #: (name, tensor) pairs of the outputs, in the order of the file.
    outputs: list[tuple[str, Tensor]] = dataclasses.field(default_factory=list)

    def copy(self, subgraphs: Mapping[Subgraph, Subgraph], tensors: Mapping[Tensor, Tensor]) -> Signature:
        """Returns a copy that refers to ``subgraphs[g]`` and ``tensors[t]`` where this one has g and t."""
        inputs, outputs = ([(name, tensors[t]) for name, t in side] for side in (self.inputs, self.outputs))
        return Signature(self.key, subgraphs[self.subgraph], inputs, outputs)


@dataclasses.dataclass(eq=False, repr=False)
class Model:
    """A .tflite model as objects that refer to each other; indices exist in the file only."""

    #: subgraphs in the order of the file; an interpreter's ``Invoke`` runs the first one.
    subgraphs: list[Subgraph] = dataclasses.field(default_factory=list)
    #: buffers of the original file, referenced or not; the first one is empty. Buffers that tensors or metadata refer
    #: to but that are missing here are appended when the model is written.
    buffers: list[Buffer] = dataclasses.field(default_factory=lambda: [Buffer()])
    #: operator codes of the original file; codes of operators that are missing here are appended when the model is
    #: written.
    operator_codes: list[OperatorCode] = dataclasses.field(default_factory=list)
    #: signatures in the order of the file, or None where the file has no such list.
    signatures: list[Signature] | None = None
    #: metadata entries in the order of the file, or None where the file has no such list.
    metadata: list[Metadata] | None = None
    #: buffers of the deprecated ``metadata_buffer`` list, or None where there is none.
    metadata_buffers: list[Buffer] | None = None
    description: str | None = None  #: free text, or None where absent.
    archive: bytes = b""  #: zip archive that is to be appended to the file, or nothing.

    def __repr__(self) -> str:
        ports = (
            (
                ", ".join(f"{'x'.join(map(str, t.shape))} {t.type_name}" for t in tensors)
                for tensors in (self.subgraphs[0].inputs, self.subgraphs[-1].outputs)
            )
            if self.subgraphs
            else ("", "")
        )
        operators = sum(len(graph.operators) for graph in self.subgraphs)
        return f"<Model: {operators} operators, {' -> '.join(ports)}>"

    def summary(self) -> None:
        """Prints the tables of ``tflm-zo inspect``: inputs, outputs, operators, and a ZO model's trainable filters."""
        from ...io.table import table_console
        from ..summary import render_summary, summarize

        render_summary(table_console(), summarize(self, len(self.to_bytes())), "model")

    @property
    def only_graph(self) -> Subgraph:
        """The subgraph of a model that has one, besides those that set initial values of variables. Several or none
        raise ConversionError.
        """
        from ..states import main_graph

        graph = main_graph(self)
        if graph is None:
            raise ConversionError(f"the model has {len(self.subgraphs)} subgraphs, only one is supported")
        return graph

    @property
    def empty_buffer(self) -> Buffer:
        """The buffer without data that comes first in every model."""
        return self.buffers[0]

    def find_metadata(self, name: str) -> Metadata | None:
        """Returns the first metadata entry of that name, or None."""
        return next((m for m in self.metadata or () if m.name == name), None)

    def referenced_buffers(self) -> set[Buffer]:
        """Returns the buffers that tensors or metadata refer to."""
        used = {t.buffer for graph in self.subgraphs for t in graph.all_tensors()}
        used.update(m.buffer for m in self.metadata or ())
        used.update(self.metadata_buffers or ())
        return used

    def copy(self) -> Model:
        """Returns a copy that shares nothing with this model that could be changed."""
        buffers: dict[Buffer, Buffer] = {}

        def own(buffer: Buffer) -> Buffer:
            if buffer not in buffers:
                buffers[buffer] = Buffer(buffer.data)
            return buffers[buffer]

        graphs: dict[Subgraph, Subgraph] = {}
        tensors: dict[Tensor, Tensor] = {}
        codes = {code: dataclasses.replace(code) for code in self.operator_codes}
        result = dataclasses.replace(self, buffers=[own(b) for b in self.buffers], operator_codes=[*codes.values()])
        for graph in self.subgraphs:
            for tensor in graph.all_tensors():
                copied = tensors[tensor] = tensor.copy()
                copied.buffer = own(tensor.buffer)
            graphs[graph] = graph.copy(tensors)
            for op in graphs[graph].operators:
                op.code = codes.setdefault(op.code, dataclasses.replace(op.code))
        result.subgraphs = list(graphs.values())
        if self.signatures is not None:
            result.signatures = [s.copy(graphs, tensors) for s in self.signatures]
        if self.metadata is not None:
            result.metadata = [Metadata(m.name, own(m.buffer)) for m in self.metadata]
        if self.metadata_buffers is not None:
            result.metadata_buffers = [own(b) for b in self.metadata_buffers]
        return result

    def to_bytes(self) -> bytes:
        """Returns the model as the bytes of a .tflite file, deterministic, with buffers aligned to 16. Raises
        ConversionError if the model contradicts itself, or is larger than a flatbuffer can be.
        """
        from .writer import write_model

        return write_model(self)

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes the model to a file, which appears whole or not at all, and returns its path.

        Args:
            path: path of the file.
            force: replaces a file that exists.

        Raises:
            FileExistsError: the file exists and ``force`` is not set.
            OSError: the file cannot be written.
            ConversionError: as in `to_bytes`.
        """
        return write_output(Path(path), self.to_bytes(), force=force)
