"""Subgraphs, operators and tensors, compared by identity: names need not be unique."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConversionError
from .schema import DTYPES, OPERATOR_NAMES, TENSOR_TYPE_NAMES, BuiltinOperator, schema


@dataclasses.dataclass(eq=False)
class Buffer:
    """Bytes of tensors or metadata entries; compared by identity. Tensors may share a buffer, so passes replace the
    buffer of a tensor (``Tensor.set_data``) and never edit one.
    """

    data: bytes = dataclasses.field(default=b"", repr=False)


@dataclasses.dataclass(eq=False)
class Quantization:
    """Affine quantization, real = scale * (stored - zero point)."""

    #: scales, float32 [channels]; [1] for the whole tensor; [0] where the table holds no parameters.
    scales: npt.NDArray[np.float32]
    #: zero points, int64 [scales]; files of older converters may have another number of them.
    zero_points: npt.NDArray[np.int64]
    axis: int = 0  #: dimension of the channels; meaningless where there is one scale.
    #: the object of the generated schema, for fields that are not modelled here (min, max, details).
    raw: Any = dataclasses.field(default_factory=schema.QuantizationParametersT)

    @property
    def is_per_channel(self) -> bool:
        """True if there is more than one scale."""
        return len(self.scales) > 1

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantization (the first one otherwise), as the float32 it is."""
        return float(self.scales[0])

    @property
    def zero_point(self) -> int:
        """The zero point that belongs to ``scale``; 0 where none is stored."""
        return int(self.zero_points[0]) if len(self.zero_points) else 0

    def copy(self) -> Quantization:
        """Returns a copy with arrays of its own."""
        return dataclasses.replace(self, scales=self.scales.copy(), zero_points=self.zero_points.copy())


@dataclasses.dataclass(eq=False, repr=False)
class Tensor:
    """A tensor; compared by identity, since names need not be unique."""

    name: str  #: name in the file, possibly empty.
    shape: tuple[int, ...]  #: sizes of the dimensions; () for a scalar.
    type: int  #: element type, a ``TensorType``.
    buffer: Buffer  #: buffer with the constant data; one without data for a tensor that is computed, fed or variable.
    quantization: Quantization | None = None  #: quantization parameters, or None where the file has no table of them.
    #: True if the tensor keeps its value between invokes; the value is zero after allocation and reset.
    is_variable: bool = False
    #: the shape with -1 for sizes that may change, or None where the file has none.
    shape_signature: tuple[int, ...] | None = None
    #: the object of the generated schema, for fields that are not modelled here (sparsity, variant tensors, has_rank
    #: …).
    raw: Any = dataclasses.field(default_factory=schema.TensorT)

    @classmethod
    def constant(cls, name: str, values: npt.NDArray[Any]) -> Tensor:
        """Returns a tensor of constant data."""
        kind = next(number for number, dtype in DTYPES.items() if values.dtype == dtype)
        return cls(name, values.shape, kind, Buffer(values.tobytes()))

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r}: {self.type_name} {list(self.shape)}>"

    @property
    def type_name(self) -> str:
        """Name of the element type, e.g. ``INT8``."""
        return TENSOR_TYPE_NAMES.get(self.type, str(self.type))

    @property
    def is_constant(self) -> bool:
        """True if the file holds its data."""
        return bool(self.buffer.data)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def numpy(self) -> npt.NDArray[Any]:
        """Returns the constant data as a read-only array of the tensor's shape. Raises ConversionError if the tensor
        has no constant data, or data of a type that NumPy lacks (strings, 4-bit integers …).
        """
        if not self.is_constant:
            raise ConversionError(f"tensor `{self.name}` has no constant data")
        if self.type not in DTYPES or self.raw.sparsity is not None:
            raise ConversionError(f"data of tensor `{self.name}` ({self.type_name}) cannot be read")
        return np.frombuffer(self.buffer.data, DTYPES[self.type]).reshape(self.shape)

    def set_data(self, array: npt.NDArray[Any]) -> None:
        """Gives the tensor a buffer of its own with data of its shape and type. Other users of the old one keep it."""
        if array.shape != self.shape or array.dtype != np.dtype(DTYPES[self.type]):
            raise ConversionError(
                f"tensor `{self.name}` is {self.type_name} {list(self.shape)}, not {array.dtype} {list(array.shape)}"
            )
        self.buffer = Buffer(array.tobytes())

    def copy(self) -> Tensor:
        """Returns a copy that shares the buffer and ``raw``, of which the writer completes a copy."""
        quantization = None if self.quantization is None else self.quantization.copy()
        return dataclasses.replace(self, quantization=quantization)


@dataclasses.dataclass(eq=False)
class OperatorCode:
    """Operator code; equal codes become one entry of the file."""

    builtin: int  #: a ``BuiltinOperator`` (CUSTOM for custom operators).
    version: int = 1  #: version of the kernel, as the file says.
    custom: str | None = None  #: name of a custom operator; None for a builtin one.

    @classmethod
    def of_custom(cls, name: str) -> OperatorCode:
        """Returns the code of a custom operator."""
        return cls(BuiltinOperator.CUSTOM, 1, name)

    @property
    def name(self) -> str:
        """Name for messages, e.g. ``CONV_2D`` or the custom operator's own."""
        if self.builtin == BuiltinOperator.CUSTOM:
            return self.custom or "CUSTOM"
        return OPERATOR_NAMES.get(self.builtin, str(self.builtin))


@dataclasses.dataclass(eq=False, repr=False)
class Operator:
    """An operator; compared by identity."""

    code: OperatorCode  #: operator code, which says what the operator computes.
    inputs: list[Tensor | None]  #: tensors that the operator reads; None stands for an optional input that is absent.
    outputs: list[Tensor]  #: tensors that the operator computes.
    #: tensors that some recurrent kernels need, or None where the file has no such list.
    intermediates: list[Tensor | None] | None = None
    custom_options: bytes | None = None  #: bytes of a custom operator's options, or None.
    #: the object of the generated schema, for fields that are not modelled here; its ``builtinOptions`` are the
    #: options.
    raw: Any = dataclasses.field(default_factory=schema.OperatorT)

    def __repr__(self) -> str:
        return f"<Operator {self.label}>"

    @property
    def builtin(self) -> int:
        """Number of the operator, a ``BuiltinOperator``."""
        return self.code.builtin

    @property
    def options(self) -> Any:
        """Options of a builtin operator: a generated object to read and write, or None."""
        return self.raw.builtinOptions

    def option(self, name: str, default: Any) -> Any:
        """Returns a field of the builtin options, or the default where options or field are absent. Raises
        ConversionError where the operator has the options of another operator.
        """
        options = self.raw.builtinOptions
        if options is None:
            return default
        if not hasattr(options, name):
            raise ConversionError(f"{self.label}: has options of another operator; the file is damaged")
        value = getattr(options, name)
        return default if value is None else value

    @property
    def label(self) -> str:
        """Name of the operator in messages: its kind and the name of its first output."""
        name = self.outputs[0].name if self.outputs else ""
        return f"{self.code.name} `{name}`" if name else self.code.name

    def input(self, index: int) -> Tensor | None:
        """Returns input ``index``, or None where it is absent or beyond the end."""
        return self.inputs[index] if index < len(self.inputs) else None

    def replace_input(self, old: Tensor, new: Tensor) -> None:
        """Replaces ``old`` by ``new`` wherever it is an input."""
        self.inputs = [new if t is old else t for t in self.inputs]

    def copy(self, tensors: Mapping[Tensor, Tensor]) -> Operator:
        """Returns a copy that refers to ``tensors[t]`` wherever this operator refers to t."""
        raw = copy.copy(self.raw)  # the writer completes a copy; passes change the options
        raw.builtinOptions = copy.deepcopy(self.raw.builtinOptions)
        return dataclasses.replace(
            self,
            inputs=[None if t is None else tensors[t] for t in self.inputs],
            outputs=[tensors[t] for t in self.outputs],
            intermediates=None
            if self.intermediates is None
            else [None if t is None else tensors[t] for t in self.intermediates],
            raw=raw,
        )


@dataclasses.dataclass(eq=False, repr=False)
class Subgraph:
    """A subgraph; compared by identity."""

    name: str = ""  #: name of the subgraph, possibly empty.
    #: tensors in the order of the file; tensors that operators, inputs or outputs refer to but that are missing here
    #: are appended when the model is written.
    tensors: list[Tensor] = dataclasses.field(default_factory=list)
    inputs: list[Tensor] = dataclasses.field(default_factory=list)  #: tensors that the caller feeds.
    outputs: list[Tensor] = dataclasses.field(default_factory=list)  #: tensors that the caller reads.
    operators: list[Operator] = dataclasses.field(default_factory=list)  #: operators in execution order.
    #: the object of the generated schema, for fields that are not modelled here.
    raw: Any = dataclasses.field(default_factory=schema.SubGraphT)

    def __repr__(self) -> str:
        return f"<Subgraph {self.name!r}: {len(self.operators)} operators, {len(self.tensors)} tensors>"

    def all_tensors(self) -> Iterator[Tensor]:
        """Yields every tensor once: the listed ones, then others that are referred to, in execution order."""
        seen: set[Tensor] = set()
        for tensor in self._mentions():
            if tensor is not None and tensor not in seen:
                seen.add(tensor)
                yield tensor

    def copy(self, tensors: Mapping[Tensor, Tensor]) -> Subgraph:
        """Returns a copy that refers to ``tensors[t]`` wherever this subgraph refers to t."""
        return dataclasses.replace(
            self,
            tensors=[tensors[t] for t in self.tensors],
            inputs=[tensors[t] for t in self.inputs],
            outputs=[tensors[t] for t in self.outputs],
            operators=[op.copy(tensors) for op in self.operators],
        )

    def _mentions(self) -> Iterator[Tensor | None]:
        yield from self.tensors
        yield from self.inputs
        for op in self.operators:
            yield from op.inputs
            yield from op.outputs
            yield from op.intermediates or ()
        yield from self.outputs

    def own_input(self, op: Operator, index: int) -> Tensor:
        """Returns an operator's input, or puts a copy in its place if anything else reads that tensor too."""
        tensor = op.inputs[index]
        assert tensor is not None
        if sum(o.inputs.count(tensor) for o in self.operators) == 1 and tensor not in self.outputs:
            return tensor
        own = op.inputs[index] = tensor.copy()
        self.tensors.append(own)
        return own

    def upstream(self, tensor: Tensor) -> set[Operator]:
        """Returns the operators that a tensor depends on."""
        producers, found, pending = self.producers(), set[Operator](), [tensor]
        while pending:
            op = producers.get(pending.pop())
            if op is not None and op not in found:
                found.add(op)
                pending += [t for t in op.inputs if t is not None]
        return found

    def producers(self) -> dict[Tensor, Operator]:
        """Returns the operator that computes each tensor; constants, variables and inputs are missing."""
        return {t: op for op in self.operators for t in op.outputs}

    def consumers(self) -> dict[Tensor, list[Operator]]:
        """Returns the operators that read each tensor, in execution order; unread tensors are missing."""
        result: dict[Tensor, list[Operator]] = {}
        for op in self.operators:
            for tensor in dict.fromkeys(op.inputs):
                if tensor is not None:
                    result.setdefault(tensor, []).append(op)
        return result
