"""Data between Python and the generated trainers: C structs, samples, stores, memory."""

import ctypes

import numpy as np

from tflm_zo.data import Data

_MAX_TENSORS = 16
u32 = ctypes.c_uint32


class _HostSegment(ctypes.Structure):
    _fields_ = [
        ("inputs", u32),
        ("outputs", u32),
        ("input_bytes", u32 * _MAX_TENSORS),
        ("output_bytes", u32 * _MAX_TENSORS),
        ("is_read_last", u32 * _MAX_TENSORS),
        ("activations", u32),
    ]


Open = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_HostSegment))
Invoke = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p)
)
Reset = ctypes.CFUNCTYPE(ctypes.c_int)
Send = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, u32)
_Tell = ctypes.CFUNCTYPE(None, u32, ctypes.c_void_p, u32)


class Host(ctypes.Structure):
    _fields_ = [("open", Open), ("invoke", Invoke)]


class _Samples(ctypes.Structure):
    _fields_ = [
        ("inputs", ctypes.c_void_p * 8),
        ("input_bytes", u32 * 8),
        ("labels", ctypes.c_void_p),
        ("label_bytes", u32),
        ("count", u32),
        ("reads", u32),
        ("failing_read", u32),
    ]


class _Store(ctypes.Structure):
    _fields_ = [
        ("bytes", ctypes.c_void_p),
        ("room", u32),
        ("size", u32),
        ("unit", u32),
        ("reads", u32),
        ("failing_read", u32),
        ("writes", u32),
        ("failing_write", u32),
        ("failing_writes", u32),
        ("arrives", u32),
        ("in_part", u32),
        ("tell", _Tell),
    ]


class WeightSink(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_void_p), ("size", u32), ("at", u32)]


class Report(ctypes.Structure):
    _fields_ = [("step_done", u32), ("step", u32), ("mean_loss", ctypes.c_int32), ("rate", u32)]


class Evaluation(ctypes.Structure):
    _fields_ = [("samples", u32), ("correct", u32), ("loss", ctypes.c_int64)]


class Source(ctypes.Structure):
    _fields_ = [("read", ctypes.c_void_p), ("context", ctypes.c_void_p)]


class LogStore(ctypes.Structure):
    _fields_ = [
        ("write", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("sync", ctypes.c_void_p),
        ("unit", u32),
        ("bytes", u32),
    ]


class Yardstick(ctypes.Structure):
    _fields_ = [("source", Source), ("count", u32), ("every", u32)]


class WeightSnapshot(ctypes.Structure):
    _fields_ = [("weights", LogStore), ("step", u32), ("mark", u32)]


class Samples:
    """Samples in a device's memory; reads can be made to fail."""

    def __init__(self, data: Data) -> None:
        count = len(data) * data.steps  # a device reads sequences step by step
        self.arrays = [np.ascontiguousarray(a).reshape(count, -1) for a in data.inputs]
        self.labels = np.ascontiguousarray(data.labels).reshape(count, -1)
        self.c = _Samples()
        for i, values in enumerate(self.arrays):
            self.c.inputs[i] = values.ctypes.data
            self.c.input_bytes[i] = values.nbytes // len(values)
        self.c.labels = self.labels.ctypes.data
        self.c.label_bytes = self.labels.nbytes // len(self.labels)
        self.c.count = len(data)

    def fail_at(self, read: int) -> None:
        """Lets the read of this number from now on fail, counted from 1; 0: none."""
        self.c.reads, self.c.failing_read = 0, read


class Store:
    """A log store, erased, that takes whole units. It keeps a journal of all writes."""

    def __init__(self, size: int = 1 << 16, content: bytes = b"", unit: int = 1) -> None:
        self.bytes = np.full(size, 0xFF, np.uint8)
        self.bytes[: len(content)] = np.frombuffer(content, np.uint8)
        self.journal: list[tuple[int, bytes]] = []
        self._tell = _Tell(lambda offset, at, count: self.journal.append((offset, ctypes.string_at(at, count))))
        self.c = _Store(self.bytes.ctypes.data, size, size, unit, tell=self._tell)

    def fail_at(self, write: int, arrives: int = 0, writes: int = 1) -> None:
        """Lets the write of this number, from 1, fail after so many bytes, and so many in all; 0: none."""
        self.c.writes, self.c.failing_write, self.c.failing_writes = 0, write, writes
        self.c.arrives = arrives

    def fail_read_at(self, read: int) -> None:
        """Lets the read of this number from now on fail, counted from 1; 0: none."""
        self.c.reads, self.c.failing_read = 0, read

    def content(self, count: int) -> bytes:
        return self.bytes[:count].tobytes()


class ActiveLog(Store):
    """The log of the active place of a store."""

    def __init__(self, whole: Store) -> None:
        super().__init__(0, unit=whole.c.unit)
        self.c.bytes = None
        self.fail_at, self.fail_read_at = whole.fail_at, whole.fail_read_at  # type: ignore[method-assign]
        self.content = whole.content  # type: ignore[method-assign]


class GuardedMemory:
    """Memory, aligned to 16 bytes, between bytes that nobody may touch."""

    _GUARD = 64

    def __init__(self, size: int) -> None:
        self.size = size
        self._all = np.full(size + 2 * self._GUARD + 16, 0xA5, np.uint8)
        self._begin = self._GUARD + -(self._all.ctypes.data + self._GUARD) % 16
        self.own = self._all[self._begin : self._begin + size]

    @property
    def address(self) -> int:
        return int(self.own.ctypes.data)

    def is_whole(self) -> bool:
        """Returns True if nothing was written beside it."""
        beside = np.concatenate([self._all[: self._begin], self._all[self._begin + self.size :]])
        return bool((beside == 0xA5).all())
