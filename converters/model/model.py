# SPDX-License-Identifier: Apache-2.0
"""The editable model."""

from __future__ import annotations

import copy
import dataclasses
import os
from pathlib import Path

from ..files import write_output
from .buffer import Buffer
from .metadata_entry import Metadata
from .operator_code import OperatorCode
from .signature import Signature
from .subgraph import Subgraph


@dataclasses.dataclass(eq=False, repr=False)
class Model:
    """A .tflite model as objects that refer to each other; indices exist in the file only.

    Attributes:
        subgraphs: the first one is what ``Invoke`` of an interpreter runs.
        buffers: the buffers of the original file, referenced or not; the first is the empty one. Buffers that
            tensors or metadata refer to but that are missing here are appended when the model is written.
        operator_codes: those of the original file; missing ones are appended likewise.
        signatures: in the order of the file.
        metadata: in the order of the file.
        metadata_buffers: buffers of the deprecated ``metadata_buffer`` list, or None where there is none.
        description: free text, or None where absent.
    """

    subgraphs: list[Subgraph] = dataclasses.field(default_factory=list)
    buffers: list[Buffer] = dataclasses.field(default_factory=lambda: [Buffer()])
    operator_codes: list[OperatorCode] = dataclasses.field(default_factory=list)
    signatures: list[Signature] | None = None
    metadata: list[Metadata] | None = None
    metadata_buffers: list[Buffer] | None = None
    description: str | None = None

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
        """Prints the tables of ``tflm-zo inspect``: inputs and outputs, operators, and of a ZO model what it
        trains.
        """
        from ..summary import render_summary, summarize
        from ..table import table_console

        render_summary(table_console(), summarize(self, len(self.to_bytes())), "model")

    @property
    def empty_buffer(self) -> Buffer:
        """The buffer without data that comes first in every model."""
        return self.buffers[0]

    def find_metadata(self, name: str) -> Metadata | None:
        """The first metadata entry of that name."""
        return next((m for m in self.metadata or () if m.name == name), None)

    def referenced_buffers(self) -> set[Buffer]:
        """The buffers that tensors or metadata refer to."""
        used = {t.buffer for graph in self.subgraphs for t in graph.all_tensors()}
        used.update(m.buffer for m in self.metadata or ())
        used.update(self.metadata_buffers or ())
        return used

    def copy(self) -> Model:
        """A model that shares nothing with this one that could be changed."""
        return copy.deepcopy(self)

    def to_bytes(self) -> bytes:
        """The model as a .tflite file: deterministic, buffers aligned to 16 bytes.

        Raises:
            ConversionError: it is inconsistent, or larger than a flatbuffer can be.
        """
        from .writer import write_model

        return write_model(self)

    def save(self, path: str | os.PathLike[str], force: bool = False) -> Path:
        """Writes the model to a file and returns its path.

        The file appears whole or not at all: it is written under a temporary name next to it first.

        Args:
            path: where to.
            force: replace a file that exists.

        Raises:
            FileExistsError: the file exists and ``force`` is not set.
            OSError: it cannot be written.
            ConversionError: see ``to_bytes``.
        """
        return write_output(Path(path), self.to_bytes(), force=force)
