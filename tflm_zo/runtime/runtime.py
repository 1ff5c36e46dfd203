"""The interface to a ZO model that all runtimes share."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..converters import Model, WeightArray, can_change_batch, extract_segment
from ..converters.initial_weights import checked_weights
from ..converters.model.schema import DTYPES
from ..converters.segments import entering_tensor
from ..core import LOSS_OVER, Command, Directory, command_check
from ..data import DataError, prepare_input, prepare_labels
from ..data.prepare import Inputs, ModelError
from ..io.errors import SettingsError
from .lane import Engine, Fed, Lane, Lanes, Reader, Segment, Status

_MOST_THREADS: Final = 256  # the delegate's (ops/tflite/zo_threads.h)


class Runtime(Inputs, ABC):
    """A ZO model loaded into a runtime, ready to infer and to train.

    The interpreter holds the weights, which start as the model's initial ones and persist from invoke to
    invoke. An object is not thread-safe; different objects are independent.

    Args:
        model: a ZO model, its bytes, or the path of its file.
        threads: number of threads, 1..256. Does not affect results.

    Attributes:
        threads: number of threads.
        segments: segments of the model, each in its interpreter; a model that was not cut has one.
        segment_count: number of segments.
        inputs: original inputs of the next invoke, by number, in the model's dtypes.
        labels: labels of the next invoke; None before they are set.
        lanes: lanes of the segments.

    Raises:
        RuntimeUnavailableError: the runtime is not installed; the message has the command that installs it.
        ModelError: the model is not a ZO model, or the runtime refuses it; the message quotes the runtime.
        ValueError: `threads` is out of range, or the runtime supports one thread only.
    """

    name: ClassVar[str]
    """The name `tflm_zo.runtime.load` knows it by."""
    has_copies: ClassVar[bool] = False
    """True if a segment can be loaded again, for another number of samples, with the weights of the first."""

    def __init__(self, model: Model | bytes | str | os.PathLike[str], threads: int = 1) -> None:
        self.import_module()  # an absent runtime is reported before anything about the model
        if not isinstance(threads, int) or not 1 <= threads <= _MOST_THREADS:
            raise SettingsError("threads", f"be in 1..{_MOST_THREADS}", threads)
        if threads > 1 and not self.has_copies:
            raise SettingsError("threads", f"be 1, because {self.name} has one thread", threads, "Use runtime litert")
        super().__init__(model)
        self.segment_count = count = len(self._metadata.segments)
        self.threads = threads
        self.segments = [self._open_segment(self._model, k) for k in range(count)]
        self._status = list(self.segments)  # segments whose weight operators ran last
        own = Lane(self.batch, lambda k: self.segments[k])
        self.lanes = Lanes(own, self._lane if self.has_copies else None)

        self.inputs: dict[int, NDArray[Any]] = {}
        self.labels: NDArray[Any] | None = None
        self._boundaries: dict[int, NDArray[Any]] = {}
        self._outputs: dict[int, Reader] = {}
        self._losses: NDArray[np.int32] | None = None
        # Shapes and dtypes of the earlier activations that a run reads if it starts at a segment.
        self._entering = [
            {j: self._entering_details(j) for j in self._metadata.entering(k)} for k in range(len(self.segments))
        ]
        self.set_inputs(*(np.zeros(d[0], d[1]) for _, d in sorted(self._input_details.items())))
        try:
            # The op pack copies the initial weights in and publishes where they are.
            self.invoke()
            self._weights, self._fractions = dict[str, WeightArray](), dict[str, NDArray[np.int8]]()
            for tensor in self._metadata.trainable:
                weights, fractions = self.segments[tensor.segment].directory.find(tensor.stream)
                self._weights[tensor.name] = weights.view(tensor.dtype)
                if fractions is not None:
                    self._fractions[tensor.name] = fractions
        except ValueError as error:
            raise ModelError(f"{self.name} has no memory for all of the model: {error}") from error
        except KeyError as error:
            raise ModelError(f"the model's operators do not say where weights {error} are") from error

    # --- interface of a concrete runtime --------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def import_module(cls) -> ModuleType:
        """Imports the runtime's module. Raises RuntimeUnavailableError if it is not installed."""

    @abstractmethod
    def _open(self, model: bytes, directory: Directory, *, borrows: bool = False) -> Engine:
        """Loads a standalone segment. Its op pack must fill `directory` or, if it `borrows`, use the weights in it."""

    # --- construction ---------------------------------------------------------------------------------------

    def _open_segment(self, model: Model, k: int) -> Segment:
        return self._segment(extract_segment(model, k), k, Directory(len(self._metadata.trainable)))

    @cached_property
    def _divides(self) -> bool:
        return can_change_batch(self._model)

    def takes(self, samples: int) -> bool:
        """Returns whether one invoke supports a number of samples: the model's batch, or any if operators allow."""
        return samples == self.batch or (self.has_copies and self._divides)

    def _lane(self, samples: int) -> Lane | None:
        """Returns a lane for another number of samples, with the same weights, or None without support."""
        return Lane(samples, lambda k: self._copy(k, samples)) if self.takes(samples) else None

    def _copy(self, k: int, samples: int) -> Segment:
        own = extract_segment(self._model, k, samples)
        return self._segment(own, k, self.segments[k].directory, borrows=True)

    def _segment(self, own: Model, k: int, directory: Directory, *, borrows: bool = False) -> Segment:
        description = self._metadata.segments[k]
        try:
            engine = self._open(own.to_bytes(), directory, borrows=borrows)
        except (RuntimeError, ValueError) as error:
            # The interpreter's own error, of several lines; errors of this package were raised before.
            said = " ".join(str(error).split())
            raise ModelError(f"{self.name} does not take the model: {said}") from error

        inputs, outputs = description.inputs, description.outputs
        return Segment(
            engine=engine,
            directory=directory,
            inputs={p.index: i for i, p in enumerate(inputs) if p.role == "input" and p.index is not None},
            outputs={p.index: i for i, p in enumerate(outputs) if p.role == "output" and p.index is not None},
            boundary_input=description.input_index("boundary"),
            skips=description.skips,
            boundary_output=description.output_index("boundary"),
            label=description.input_index("label"),
            command=description.input_index("command"),
            loss=description.output_index("loss"),
            status=description.output_index("status"),
        )

    # --- description ----------------------------------------------------------------------------------------

    @property
    def samples_at_once(self) -> int:
        """Number of samples in an invoke of a pass over a data set: a batch, or more if that is faster."""
        many = 32 * self.threads
        return many if many > self.batch and self.takes(many) else self.batch

    # --- data -----------------------------------------------------------------------------------------------

    def set_inputs(self, *arrays: ArrayLike) -> None:
        """Sets the original inputs, in the model's order, for all following invokes.

        Args:
            arrays: an array for each input, [batch, ...], of sequences [batch, steps, ...], of the types that
                `tflm_zo.data.prepare` accepts.
                Floating point for an int8 or uint8 input is quantized with the input's scale and zero point,
                rounding half to even, clipped to -128..127 or 0..255.

        Raises:
            DataError: a number, shape or type is wrong, or a value is not finite; nothing is changed.
        """
        if len(arrays) != len(self._input_details):
            raise DataError(
                f"`arrays` must have {len(self._input_details)} arrays, one for each input. Received: {len(arrays)}."
            )
        prepared = {}
        for i, array in enumerate(arrays):
            details = self._input_details[i]
            prepared[i] = prepare_input(array, details, f"input {i}", of_steps=bool(self._metadata.states))
            if len(prepared[i]) != details[0][0]:
                raise DataError(f"`input {i}` must have {details[0][0]} samples. Received: {len(prepared[i])}.")
        self.inputs = prepared

    def set_labels(self, labels: ArrayLike) -> None:
        """Sets the labels for all following invokes, of `batch` samples, as for `tflm_zo.data.prepare`. DataError: a
        number, shape, type or range is wrong; nothing is changed.
        """
        loss = self._metadata.loss
        if loss is None:
            raise DataError("the model has no loss. Give no labels")
        prepared = prepare_labels(labels, loss, self.label_details(), self.steps)
        if len(prepared) != self.batch:
            raise DataError(f"`y` must have {self.batch} labels, the model's batch. Received: {len(prepared)}.")
        self.labels = prepared.view()

    def feed(self, inputs: list[NDArray[Any]], labels: NDArray[Any] | None) -> None:
        """Sets inputs and labels of any number of samples, without checks.

        Use it in loops over a data set that `tflm_zo.data.prepare` has prepared. Call it again after a change
        of the arrays, because consecutive invokes may not copy them again.
        """
        self.inputs = dict(enumerate(inputs))
        if labels is not None:
            self.labels = labels.view()  # a new object, by which lanes recognize new labels

    # --- running --------------------------------------------------------------------------------------------

    def command(self, *, loss: bool = True, checksum: bool = False) -> Command:
        """Returns a new, empty command of the model's size."""
        return Command(self._metadata.command_words, loss=loss, checksum=checksum)

    def invoke(
        self,
        command: Command | NDArray[np.int32] | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        boundary: NDArray[Any] | Mapping[int, NDArray[Any]] | None = None,
        keep: bool = True,
        checked: bool = False,
    ) -> None:
        """Runs the model once, or its suffix from segment `start` on.

        The segments that run execute the command's instructions before the forward pass. Segments before
        `start` do not change their weights.

        Args:
            command: instructions of the weight ops; None for a plain inference without losses.
            start: number of the first segment to run.
            stop: number of the first segment that does not run; `boundary` then returns its input. None runs
                to the end.
            boundary: input activation of segment `start`, int8 [samples, ...], or several by the numbers of
                `metadata.entering(start)`. Missing ones are those of the last run that kept them. Inputs and
                labels of fewer samples are repeated, so several queries of a minibatch can be one run.
            keep: True to keep the input activations of segments for `boundary` and for later runs.
            checked: True if the command comes from the control unit, so that only the ops check it.

        Raises:
            NativeError: the model does not allow the command; weights and outputs are unchanged.
            ValueError: the command requests losses without labels, or `start` or `boundary` is not valid.
            InvokeError: the interpreter failed.
        """
        words = command if checked and isinstance(command, np.ndarray) else self._words(command)
        if words[0] & 1 and self.labels is None and self._metadata.loss is not None:
            raise ValueError("the command asks for losses: set_labels first")
        if stop is not None and not start < stop <= len(self.segments):
            raise ValueError(f"`stop` must be in {start + 1}..{len(self.segments)}. Received: {stop}.")
        if not 0 <= start < len(self.segments):
            raise ValueError(f"start: the model has segments 0..{len(self.segments) - 1}, got {start}")
        end = len(self.segments) if stop is None else stop
        given = self._given(start, boundary)
        entering = {**self._boundaries, **given}
        samples = len(entering[start] if start else self.inputs[0])
        if start and self.steps > 1:
            raise ValueError("`start` must be 0, because a sequence runs from its first step through all segments.")
        lane = self.lanes.of(samples)
        fed = self._fed(words, entering)
        found = self.lanes.run(lane, samples, start, end, fed)
        self._status[start:end] = lane.segments(start, end)
        if keep:
            self._boundaries = {**entering, **found.entering}
        self._outputs.update(found.outputs)
        self._losses = found.losses

    def _given(self, start: int, boundary: NDArray[Any] | Mapping[int, NDArray[Any]] | None) -> dict[int, NDArray[Any]]:
        """Checks given activations, and returns them by the segment that they enter."""
        if start == 0 and boundary is not None:
            raise ValueError("boundary: segment 0 has none; it reads the inputs")
        given: Mapping[int, NDArray[Any]] = {}
        if boundary is not None:
            given = boundary if isinstance(boundary, Mapping) else {start: boundary}
        needed, values = self._entering[start], {}
        for k in needed:
            if k not in given and k not in self._boundaries:
                raise ValueError(f"boundary: segment {k - 1} has not run yet, so it must be given")
        for k, activation in given.items():
            if k not in needed:
                raise ValueError(f"boundary: a run from segment {start} on reads {list(needed)}, not {k}")
            shape, dtype = needed[k]
            value = np.asarray(activation)
            if value.shape[1:] != shape[1:] or value.dtype != dtype or not value.size:
                raise ValueError(
                    f"`boundary` must be {dtype} [samples, {', '.join(map(str, shape[1:]))}]. "
                    f"Received: {value.dtype} {list(value.shape)}."
                )
            values[k] = np.ascontiguousarray(value)
        return values

    @property
    def steps(self) -> int:
        """Number of steps of the samples of the next invoke: 1, or that of sequences for a model with states."""
        shape = self.inputs[0].shape
        return int(shape[1]) if len(shape) > len(self._input_details[0][0]) else 1

    def _fed(self, words: NDArray[np.int32], entering: Mapping[int, NDArray[Any]]) -> Fed:
        loss = self._metadata.loss
        over = LOSS_OVER["sum" if loss is None else loss.over]
        return Fed(words, self.inputs, self.labels, entering, self.steps, over)

    def execute(self, command: Command | NDArray[np.int32]) -> None:
        """Executes a command's weight updates without a useful forward pass. Boundaries, outputs and losses remain
        those of the last invoke; the command requests no losses. NativeError: the model does not allow the command;
        weights are unchanged. InvokeError: the interpreter failed.
        """
        words, count = self._words(command), len(self.segments)
        self._outputs = {i: read().copy for i, read in self._outputs.items()}
        lane = self.lanes.of(1 if self.takes(1) else self.batch)
        lane.run(0, count, self._fed(words, {}).at(0))
        self._status[:] = lane.segments(0, count)

    def _words(self, command: Command | NDArray[np.int32] | None) -> NDArray[np.int32]:
        capacity = self._metadata.command_words
        if command is None:
            return np.zeros(capacity, np.int32)
        words = command.words if isinstance(command, Command) else np.asarray(command)
        if words.dtype != np.int32 or words.shape != (capacity,):
            raise ValueError(
                f"`command` must be int32 [{capacity}]. Received: {words.dtype} {list(words.shape)}. "
                "Use `Runtime.command()`."
            )
        command_check(
            words,
            headroom=self._metadata.headroom,
            max_queries=self._metadata.max_queries,
            blocks=len(self._metadata.blocks),
        )
        return words

    def _entering_details(self, segment: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        tensor = entering_tensor(self._model, self._metadata, segment)
        return tensor.shape, np.dtype(DTYPES[tensor.type])

    # --- results --------------------------------------------------------------------------------------------

    def boundary(self, k: int) -> NDArray[Any]:
        """Returns the input activation of segment k >= 1, from the last run that kept it."""
        if k not in self._boundaries:
            raise ValueError(f"segment {k} has no boundary, or segment {k - 1} has not run yet")
        return self._boundaries[k]

    def outputs(self) -> list[NDArray[Any]]:
        """Returns copies of the original outputs, in the model's order, in the model's own dtypes."""
        return [self._outputs[i]() for i in sorted(self._outputs)]

    def losses(self) -> NDArray[np.int32]:
        """Returns the losses of the last invoke, int32 [batch], unit 2^-16 (0 if the command requested none)."""
        if self.segments[-1].loss is None:
            raise ValueError("the model has no loss")
        if self._losses is None:
            raise ValueError("the last invoke stopped before the loss")
        return self._losses

    def status(self) -> Status:
        """Returns diagnostics of the last invoke, over all segments."""
        words = [s.engine.get_output(s.status) for s in self._status if s.status is not None]
        return Status.of(np.array(words, np.int64).reshape(-1, 4))

    # --- weights --------------------------------------------------------------------------------------------

    def weight_views(self, name: str) -> tuple[WeightArray, NDArray[np.int8] | None]:
        """Returns views of a trainable tensor in the interpreter's memory: weights and, with 16-bit updates, fractions,
        int8 [size], or biases, int32 [size]. Use them between invokes only. Raises ValueError if the model has no such
        tensor.
        """
        if name not in self._weights:
            raise ValueError(f"no trainable tensor {name!r}; there are {sorted(self._weights)}")
        return self._weights[name], self._fractions.get(name)

    def all_weight_views(self) -> tuple[dict[str, WeightArray], dict[str, NDArray[np.int8]]]:
        """Returns `weight_views` of all trainable tensors by name: weights and biases, and fractions."""
        return dict(self._weights), dict(self._fractions)

    def read_weights(self) -> dict[str, WeightArray]:
        """Returns copies of the trainable weights, int8 in their own shapes, and biases, int32, by name."""
        return {t.name: self._weights[t.name].reshape(t.shape).copy() for t in self._metadata.trainable}

    def read_fractions(self) -> dict[str, NDArray[np.int8]]:
        """Returns the weights' fractions by tensor name, unit 2^-8 LSB; {} for the 8-bit update."""
        kept = (t for t in self._metadata.trainable if t.name in self._fractions)
        return {t.name: self._fractions[t.name].reshape(t.shape).copy() for t in kept}

    def write_weights(
        self, weights: Mapping[str, WeightArray], fractions: Mapping[str, NDArray[np.int8]] | None = None
    ) -> None:
        """Replaces the weights of the named tensors. Raises ValueError if a name, shape, dtype or range is not valid;
        nothing is changed.

        Args:
            weights: int8 arrays by tensor name, within +-(127 - headroom), and int32 arrays of biases.
            fractions: int8 arrays of fractions by tensor name. The default for written weights is 0.
        """
        weights = checked_weights(self._metadata, weights, "weights")
        given = checked_weights(self._metadata, fractions or {}, "fractions")
        limit = 127 - self._metadata.headroom
        for name, array in weights.items():
            if array.dtype == np.int8 and np.abs(array.astype(np.int16)).max() > limit:
                raise ValueError(f"`weights` must be within +-{limit}, which {name} is not.")
        for name in given:
            if name not in self._fractions:
                raise ValueError(f"fractions: {name}: the model keeps none, as biases and the 8-bit update have none")
        for name, array in weights.items():
            self._weights[name][:] = array.reshape(-1)
            if name in self._fractions and name not in given:
                self._fractions[name][:] = 0
        for name, array in given.items():
            self._fractions[name][:] = array.reshape(-1)
