"""A device for tests: its process, which can be killed and begun again, and a line that leads to it."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from link.bad_line import BadLine

TESTS = Path(__file__).parents[1]


class Board:
    def __init__(self, folder: Path, run: str, *options: Any) -> None:
        self.store = folder / "flash.bin"
        self._command = [sys.executable, "-m", "link.device_process", run, self.store, *options]
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.begin()

    def begin(self, *options: Any) -> None:
        command = [str(word) for word in (*self._command, "--port", self.port, *options)]
        self._process = subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.strip().isdecimal(), "the device has not begun"
        self.port = int(line)

    def cut_power(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, "the device has ended by itself"
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def flash(self) -> bytes:
        return self.store.read_bytes()


@contextlib.contextmanager
def board(folder: Path, run: str, *options: Any) -> Iterator[Board]:
    made = Board(folder, run, *options)
    try:
        yield made
    finally:
        made.cut_power()


@contextlib.contextmanager
def board_on_line(
    folder: Path, run: str, *options: Any, share: float = 0.0, seed: int = 0
) -> Iterator[tuple[Board, BadLine]]:
    with board(folder, run, *options) as made, BadLine(made.port, share, seed) as line:
        yield made, line
