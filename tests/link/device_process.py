"""A device in a process of its own, which can be killed: a generated folder's firmware, compiled for this
machine, whose serial port is a port of this machine and whose flash is a file.

    python -m link.device_process RUN STORE --steps 40 --pace 0.05

It prints its port, then trains, a step each `--pace` seconds, and serves its line between slices. With
`--fleet` it trains when it is asked to, and has the samples of seed `--data`.
"""

import argparse
import contextlib
import select
import socket
import time
from functools import cache
from pathlib import Path

import numpy as np

from device.emulation import OK, Device
from device.runs import RUNS, generated, samples, zo_model
from device.structs import Store


class FileStore(Store):
    def __init__(self, path: Path, size: int, unit: int) -> None:
        super().__init__(size, unit=unit)
        if not path.exists():
            path.write_bytes(b"\xff" * size)
        self.bytes = np.memmap(path, np.uint8, "r+", shape=(size,))
        self.c.bytes = self.bytes.ctypes.data
        self.c.tell = type(self.c.tell)()


@cache
def firmware_device(run: str, steps: int, data: int = 1) -> Device:
    model = zo_model(run)
    made = Device(generated(model, RUNS[run][1], samples(), steps=steps), model, samples(data))
    assert made.init() == OK
    return made


class Line:
    def __init__(self, port: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", port))
        self._host: socket.socket | None = None

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def send(self, data: bytes) -> None:
        if self._host is not None:
            with contextlib.suppress(OSError):
                self._host.sendall(data)

    def receive(self, seconds: float) -> bytes:
        ends = [end for end in (self.listener, self._host) if end is not None]
        ready, _, _ = select.select(ends, [], [], seconds)
        if self.listener in ready:
            self._host, _ = self.listener.accept()
            self._host.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._host not in ready or self._host is None:
            return b""
        try:
            data = self._host.recv(256)
        except OSError:
            data = b""
        if not data:
            self._host = None
        return data


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", choices=RUNS)
    parser.add_argument("store", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=1 << 14)
    parser.add_argument("--unit", type=int, default=1)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--places", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--until", type=int, help="steps, after which it only serves")
    parser.add_argument("--fleet", action="store_true")
    parser.add_argument("--data", type=int, default=1)
    given = parser.parse_args()
    device, line = firmware_device(given.run, given.steps, given.data), Line(given.port)
    store = FileStore(given.store, given.size, given.unit)
    status = device.begin_link(store, line.send, places=given.places, buffer_bytes=256)
    assert status == OK, status
    if given.fleet:
        status = device.join_fleet()
        assert status == OK, status
    print(line.port, flush=True)
    while given.fleet:
        data = line.receive(0.0 if device.is_evaluating else 0.05)
        if data:
            device.serve(data)
        device.work()
    last = given.steps if given.until is None else given.until
    due = time.monotonic()
    while True:
        training = device.step < last
        data = line.receive(max(0.0, min(due - time.monotonic(), 0.05)) if training else 0.05)
        if data:
            device.serve(data)
        if training and time.monotonic() >= due:
            status, report = device.train_slice()
            assert status == OK, status
            if report.step_done:
                due = time.monotonic() + given.pace


if __name__ == "__main__":
    main()
