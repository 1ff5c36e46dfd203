"""Events in the middle of a run: interruptions, and disks that are full or fail."""

import errno
import io
import os
import sys
from types import FrameType
from typing import Any, Literal

import pytest

from tflm_zo.training import Callback, RunProgress


class At(Callback):
    """Does something after a step."""

    def __init__(self, step: int, action: Any) -> None:
        self.step, self.action = step, action

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        if progress.step == self.step + 1:
            self.action(progress)


def stop(progress: RunProgress) -> None:
    progress.stop()


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def interrupt_at_call(
    patch: pytest.MonkeyPatch, owner: type, name: str, call: int, when: Literal["before", "after"]
) -> list[int]:
    """Lets a method raise KeyboardInterrupt before or after a call. Returns how many are left until then."""
    original, left = getattr(owner, name), [call]

    def counted(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and when == "before":
            raise KeyboardInterrupt
        result = original(*args, **kwargs)
        if left[0] == 0:
            raise KeyboardInterrupt
        return result

    patch.setattr(owner, name, counted)
    return left


def interrupt_at_line(patch: pytest.MonkeyPatch, owner: type, name: str, files: tuple[str, ...]) -> list[int]:
    """Lets a method raise KeyboardInterrupt before a line of such files. Returns how many lines are left until then."""
    original, left = getattr(owner, name), [2**62]

    def trace_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace_line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return trace_line if frame.f_code.co_filename.endswith(files) else None

    def traced(*args: Any, **kwargs: Any) -> Any:
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return original(*args, **kwargs)
        finally:
            sys.settrace(before)

    patch.setattr(owner, name, traced)
    return left


class Disk:
    """A disk on which a log may grow to `size` bytes; a write takes as many as fit, and `at_once` at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int, at_once: int | None = None) -> None:
        disk = self
        self.size = size

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                room = disk.size - self.tell()
                if room <= 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(data[:room][:at_once])

        monkeypatch.setattr(io, "FileIO", File)


def fail_to_sync(patch: pytest.MonkeyPatch, good: int, error: int) -> None:
    """Lets fsync fail after `good` calls."""
    calls, real = [0], os.fsync

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] > good:
            raise OSError(error, os.strerror(error))
        real(handle)

    patch.setattr(os, "fsync", fsync)
