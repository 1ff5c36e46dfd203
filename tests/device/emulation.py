"""The generated trainers of `ops/device` on this machine, with stand-ins for TFLM's headers and interpreters."""

from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from device.compiled import GCC, GXX, build
from device.structs import (
    Evaluation,
    GuardedMemory,
    Host,
    Invoke,
    LogStore,
    Open,
    Report,
    Reset,
    Samples,
    Send,
    Source,
    Store,
    WeightSink,
    u32,
)
from tflm_zo import Model
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.converters.model.schema import DTYPES
from tflm_zo.core.loader import structs
from tflm_zo.data import Data
from tflm_zo.firmware import Firmware
from tflm_zo.firmware.arena import head_ends
from tflm_zo.logs.layout import unpadded
from tflm_zo.runtime import available
from tflm_zo.runtime.lane import Engine, InvokeError
from tflm_zo.runtime.litert import InterpreterEngine, LiteRTRuntime
from tflm_zo.runtime.tflm import TflmEngine, TflmRuntime

#: The runtime that plays TFLM: TFLM's own kernels if its package is installed.
RUNTIME = "tflm" if "tflm" in available() else "litert"
needs_compiler = pytest.mark.skipif(
    GXX is None or GCC is None, reason="NO g++: ops/device WAS NOT TESTED (without a checkout of TFLM)"
)


# zo_status
OK, ARGUMENT, ORDER, LABEL, MEMORY, RUNTIME_FAILED, SAMPLE, LOG, STORE = 0, 1, 4, 12, 14, 15, 16, 17, 18


class Memory(NamedTuple):
    """A store that a log is in, and its memory, see ``stores.h``; without littlefs's `file_bytes`, 0."""

    kind: int
    sectors: int
    sector_bytes: int
    page_bytes: int
    unit: int
    file_bytes: int = 0


RING, DIRECT, CACHED, LITTLEFS, HIDDEN = range(5)
_SCRATCH = 48  # bytes


@dataclass
class _Segment:
    engine: Engine
    directory: int
    bytes: bytes
    inputs: list[tuple[tuple[int, ...], np.dtype[Any]]]
    outputs: list[tuple[tuple[int, ...], np.dtype[Any]]]
    is_read_last: list[bool]


@dataclass(frozen=True)
class _Address:
    """A directory of the device's."""

    address: int


def _model_arrays(firmware: Firmware) -> list[bytes]:
    (text,) = (text for name, text in firmware.files.items() if name.endswith("_zo_model.cc"))
    found = re.findall(r"const unsigned char g_\w+\[\] = \{([^}]*)\}", text)
    return [bytes(int(b, 0) for b in re.findall(r"0x\w\w", one)) for one in found]


class Device:
    """A device with a generated folder's firmware, in a library at `path`; `own`: a folder for its memory."""

    def __init__(
        self,
        firmware: Firmware,
        model: Model,
        data: Data,
        own: Path | None = None,
        path: Path | None = None,
        in_c: bool = False,
    ) -> None:
        path = build(firmware) if path is None else path
        # A library that is loaded twice is the same, and has its globals once.
        path = path if own is None else shutil.copy(path, own / "device.so")
        self.library = ctypes.CDLL(str(path))
        self.library.device_segment_model.restype = ctypes.c_void_p
        for name in ("device_step", "device_checksum", "device_log_bytes"):
            getattr(self.library, name).restype = u32
        sizes = (u32 * 3)()
        self.library.device_sizes(sizes)
        self.arena_bytes, self.workspace_bytes, segments = sizes
        self.metadata = read_metadata(model)
        self.samples = Samples(data)
        loss = self.metadata.loss
        assert loss is not None
        self.output_shape = next(
            tensor.shape
            for graph, segment in zip(model.subgraphs, self.metadata.segments, strict=True)
            for port, tensor in zip(segment.outputs, graph.outputs, strict=True)
            if port.role == "output" and port.index == loss.output
        )
        addresses = (self.library.device_segment_model(k) for k in range(segments))
        self._models = dict(zip(addresses, arrays := _model_arrays(firmware), strict=True))
        ends = head_ends([load_model(content) for content in arrays])
        # The largest activations have a scratch buffer of the kernels behind them.
        self._heads = {at: end + _SCRATCH * (end == ends[-1]) for at, end in zip(self._models, ends, strict=True)}
        self._segments: dict[int, _Segment] = {}
        self._host = Host(Open(self._open), Invoke(self._invoke))
        self._error: BaseException | None = None
        self.invokes = 0
        self._failing: tuple[int, ...] = ()
        self._before = False
        self.arena = self.workspace = GuardedMemory(0)
        self.in_c = in_c

    # --- TFLM ---------------------------------------------------------------------------------------

    def _open(self, address: int, directory: int, found: Any) -> int:
        try:
            segment = self._segments.get(address)
            if segment is None or segment.directory != directory:
                segment = self._segments[address] = self._new(self._models[address], directory)
            _reset(segment.engine)
            host = found.contents
            host.inputs, host.outputs = len(segment.inputs), len(segment.outputs)
            host.activations = self._heads[address]
            for i, (shape, dtype) in enumerate(segment.inputs):
                host.input_bytes[i] = int(np.prod(shape)) * dtype.itemsize
                host.is_read_last[i] = segment.is_read_last[i]
            for i, (shape, dtype) in enumerate(segment.outputs):
                host.output_bytes[i] = int(np.prod(shape)) * dtype.itemsize
            return 1
        except BaseException as error:  # noqa: BLE001 - ctypes would swallow it
            self._error = error
            return 0

    def _new(self, content: bytes, directory: int) -> _Segment:
        engine = _engine(content, directory)
        graph = load_model(content).subgraphs[0]
        last = graph.operators[-1].inputs
        return _Segment(
            engine,
            directory,
            content,
            [(t.shape, np.dtype(DTYPES[t.type])) for t in graph.inputs],
            [(t.shape, np.dtype(DTYPES[t.type])) for t in graph.outputs],
            [any(t is tensor for t in last) for tensor in graph.inputs],
        )

    def _invoke(self, address: int, inputs: Any, outputs: Any) -> int:
        try:
            self.invokes += 1
            fails = self.invokes in self._failing
            if fails and self._before:
                return 0
            segment = self._segments[address]
            for i, (shape, dtype) in enumerate(segment.inputs):
                value = np.frombuffer(ctypes.string_at(inputs[i], int(np.prod(shape)) * dtype.itemsize), dtype)
                segment.engine.set_input(i, value.reshape(shape))
            try:
                segment.engine.invoke()
            except InvokeError:
                return 0
            if fails:
                return 0
            for i in range(len(segment.outputs)):
                value = np.ascontiguousarray(segment.engine.get_output(i))
                ctypes.memmove(outputs[i], value.ctypes.data, value.nbytes)
            return 1
        except BaseException as error:  # noqa: BLE001
            self._error = error
            return 0

    def fail_invokes(self, *numbers: int, before: bool = False) -> None:
        """Lets invokes of these numbers from now on fail, before anything has run or else losing their results."""
        self.invokes, self._failing, self._before = 0, numbers, before

    # --- state of the trainer -------------------------------------------------------------------------

    def _call(self, name: str, *arguments: Any) -> int:
        self.library.device_set_host(self._host)
        self.library.device_use_c(int(self.in_c))
        status = int(getattr(self.library, name)(*arguments))
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        assert self.arena.is_whole() and self.workspace.is_whole(), "memory of others was written to"
        return status

    def power_up(self) -> None:
        """Restores the state before Init, to which the trainer in C has no way back."""
        self._call("device_power_on")

    def init(self, arena_bytes: int | None = None, workspace_bytes: int | None = None) -> int:
        """Resets the device: everything but the log is gone."""
        self.arena = GuardedMemory(self.arena_bytes if arena_bytes is None else arena_bytes)
        self.workspace = GuardedMemory(self.workspace_bytes if workspace_bytes is None else workspace_bytes)
        return self._call(
            "device_init",
            ctypes.c_void_p(self.arena.address),
            ctypes.c_size_t(self.arena.size),
            ctypes.c_void_p(self.workspace.address),
            ctypes.c_size_t(self.workspace.size),
            ctypes.byref(self.samples.c),
        )

    def reset(self) -> int:
        return self.init()

    @property
    def step(self) -> int:
        return int(self.library.device_step())

    def call_c(self, name: str, *arguments: Any) -> int:
        """Calls a function of the trainer in C, by its name without the common prefix."""
        function = getattr(self.library, f"small_zo_trainer_{name}")
        function.restype = ctypes.c_size_t if name == "least_arena_bytes" else u32
        return self._call(f"small_zo_trainer_{name}", *arguments)

    def source_of(self, samples: Samples) -> Source:
        source = Source()
        self.library.device_source(ctypes.byref(samples.c), ctypes.byref(source))
        return source

    def log_of(self, store: Store) -> LogStore:
        log = LogStore()
        self.library.device_store(ctypes.byref(store.c), ctypes.byref(log))
        return log

    def set_log(self, store: Store | None) -> int:
        """Sets the log of all further steps, if the status is OK."""
        status = self._call("device_set_log", None if store is None else ctypes.byref(store.c))
        if status == OK:
            self._log = store  # kept alive
        return status

    def train_step(self) -> tuple[int, Report]:
        report = Report()
        return self._call("device_train_step", ctypes.byref(report)), report

    def train_slice(self) -> tuple[int, Report]:
        report = Report()
        return self._call("device_train_slice", ctypes.byref(report)), report

    def import_log(self, store: Store, snapshot: tuple[Store, int, int] | None = None) -> int:
        """Goes on from a log; `snapshot`: weights, step and mark."""
        weights, step, mark = snapshot or (None, 0, 0)
        kept = None if weights is None else ctypes.byref(weights.c)
        return self._call("device_import_log", ctypes.byref(store.c), kept, u32(step), u32(mark))

    def keep_best(self, yardstick: Samples, every: int) -> int:
        self.yardstick = yardstick  # kept alive
        return self._call("device_keep_best", ctypes.byref(yardstick.c), u32(every))

    def restore_best(self) -> tuple[int, Any]:
        best = structs.zo_measurement()
        return self._call("device_restore_best", ctypes.byref(best)), best

    def import_weights(self, store: Store) -> int:
        self._weights = store  # kept alive
        return self._call("device_import_weights", ctypes.byref(store.c))

    def snapshot_mark(self) -> tuple[int, int]:
        mark = u32()
        return self._call("device_snapshot_mark", ctypes.byref(mark)), mark.value

    @property
    def log_bytes(self) -> int:
        """Of the steps that are done (weight perturbation)."""
        return int(self.library.device_log_bytes())

    def export_log(self, store: Store) -> int:
        return self._call("device_export_log", ctypes.byref(store.c))

    # --- a log in memory whose power fails -----------------------------------------------------------

    def begin_memory(self, memory: Memory) -> None:
        """Fills the memory as if somebody else had used it."""
        assert self.library.device_memory_begin(*map(u32, memory)), "no such store"

    def take_memory(self, other: Device) -> None:
        """Takes the memory as another device of the same kind leaves it."""
        other.library.device_memory.restype = ctypes.c_void_p
        self.library.device_memory_take(ctypes.c_void_p(other.library.device_memory()))

    def cut_power_in(self, operations: int) -> None:
        """Lets power fail in the memory's operation of this number from now on; 0: never."""
        self.library.device_memory_cut_in(u32(operations))

    def fail_memory(self, after: int, operations: int) -> None:
        """Lets a number of the memory's operations fail after some others, and none behind them."""
        self.library.device_memory_fail(u32(after), u32(operations))

    def power_on(self) -> None:
        self.library.device_memory_power_on()

    def fail_memory_read(self, read: int) -> None:
        """Lets the read of this number from now on fail, counted from 1; 0: none."""
        self.library.device_memory_fail_read(u32(read))

    def memory_content(self, count: int) -> bytes:
        """Returns the first bytes that a mount would find in raw flash, with any failures."""
        found = np.zeros(count, np.uint8)
        assert self.library.device_memory_content(ctypes.c_void_p(found.ctypes.data), u32(count))
        return found.tobytes()

    @property
    def memory_bytes(self) -> int:
        return int(self.library.device_memory_bytes())

    def record_operations(self) -> None:
        """Counts operations of the memory from now on, for cuts."""
        self.library.device_memory_record()

    @property
    def operations(self) -> int:
        return int(self.library.device_memory_operations())

    def cut_power_at(self, operation: int) -> None:
        """Sets the memory as if power had failed at an operation, counted from 0; one after the other."""
        self.library.device_memory_cut_at(u32(operation))

    def mount(self) -> int:
        return self._call("device_memory_mount")

    def clear(self) -> int:
        return self._call("device_memory_clear")

    @property
    def memory_faults(self) -> int:
        return int(self.library.device_memory_faults())

    def stored_log(self, plain_bytes: int) -> bytes:
        """Reads the log in memory, without padding, of which so many bytes are known to be written."""
        for count in (4 * plain_bytes, plain_bytes * 17 // 16, plain_bytes):  # as long as it is with padding at most
            found = np.zeros(count, np.uint8)
            if self.library.device_memory_read(ctypes.c_void_p(found.ctypes.data), u32(count)):
                break
        else:
            raise AssertionError("the log cannot be read")
        return unpadded(found.tobytes())[:plain_bytes]

    def set_stored_log(self) -> int:
        return self._call("device_memory_set_log")

    def export_stored_log(self) -> int:
        return self._call("device_memory_export_log")

    def import_stored_log(self) -> int:
        return self._call("device_memory_import_log")

    # --- a link to a host ----------------------------------------------------------------------------

    def begin_link(
        self, store: Store | None, send: Callable[[bytes], None], *, places: bool, buffer_bytes: int = 256
    ) -> int:
        """Resumes from a store, its log or two places; answers go to `send` from now on. None: the store in memory."""
        self._linked = store  # kept alive
        self._reset = Reset(self.reset)

        def send_bytes(at: int, count: int) -> bool:
            send(ctypes.string_at(at, count))
            return True

        self._send = Send(send_bytes)
        begin = (int(places), u32(buffer_bytes), self._reset, self._send)
        if store is None:
            return self._call("device_memory_link_begin", *begin)
        return self._call("device_link_begin", ctypes.byref(store.c), *begin)

    def serve(self, received: bytes) -> int:
        """Takes bytes that a host has sent; the number of requests that were answered."""
        return self._call("device_link_serve", received, u32(len(received)))

    def join_fleet(self) -> int:
        return self._call("device_fleet_begin")

    def take_record(self, record: bytes) -> int:
        """Does a step that a fleet has decided."""
        return self._call("device_take_record", record, u32(len(record)))

    def answer_slice(self) -> tuple[int, int]:
        """Does a part of the evaluation of a fleet's step: status, and the answer's samples, 0: none yet."""
        found = u32()
        return self._call("device_answer_slice", ctypes.byref(found)), found.value

    @property
    def is_evaluating(self) -> bool:
        return bool(self.library.device_is_evaluating())

    def work(self) -> None:
        self._call("device_work")

    @property
    def adoptions(self) -> int:
        return int(self.library.device_adoptions())

    def settle(self) -> int:
        return self._call("device_settle")

    def checksum(self) -> int:
        return int(self.library.device_checksum())

    def evaluate(self, first: int = 0, count: int | None = None, of: Samples | None = None) -> tuple[int, Evaluation]:
        found, samples = Evaluation(), of or self.samples
        count = int(samples.c.count) - first if count is None else count
        return self._call("device_evaluate", ctypes.byref(samples.c), first, count, ctypes.byref(found)), found

    def export_weights(self) -> tuple[int, bytes]:
        """Returns the status and all weights, then all fractions."""
        room = np.zeros(4 * sum(t.size for t in self.metadata.trainable), np.uint8)
        sink = WeightSink(room.ctypes.data, room.size)
        status = self._call("device_export_weights", ctypes.byref(sink))
        return status, room[: sink.at].tobytes()

    def predict(self, sample: int) -> tuple[int, bytes]:
        output = ctypes.create_string_buffer(int(np.prod(self.output_shape[1:])))
        return self._call("device_predict", self.samples.arrays[0][sample].tobytes(), output), output.raw

    def stream(self, step: int, *, continues: bool) -> tuple[int, bytes]:
        """Predicts a step of a stream; steps count those of all samples."""
        output = ctypes.create_string_buffer(int(np.prod(self.output_shape[1:])))
        given = self.samples.arrays[0][step].tobytes()
        return self._call("device_stream", given, output, int(continues)), output.raw

    def infer(self, first: int) -> tuple[int, NDArray[np.int8]]:
        outputs = np.zeros(self.output_shape, np.int8)
        return self._call(
            "device_infer", ctypes.byref(self.samples.c), first, outputs.ctypes.data_as(ctypes.c_void_p)
        ), outputs


def _engine(model: bytes, directory: int) -> Engine:
    address: Any = _Address(directory)
    if RUNTIME == "tflm":
        return TflmEngine(TflmRuntime.import_module(), model, address)
    return InterpreterEngine(LiteRTRuntime.import_module(), model, address)


def _reset(engine: Engine) -> None:
    """Sets variables to zero, as after an allocation."""
    interpreter = engine.interpreter  # type: ignore[attr-defined]
    getattr(interpreter, "reset", getattr(interpreter, "reset_all_variables", None))()
