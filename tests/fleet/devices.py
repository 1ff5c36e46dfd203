"""Devices of a fleet in this process, behind lines that may be bad, and the server that decides for them."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from device.emulation import OK, Device
from device.runs import RUNS, SAMPLES, generated, samples, zo_model
from device.structs import Store
from link.damage import Damage
from tflm_zo.fleet import FleetLog, Gateway, Replica

STEPS = 12


class FleetPort:
    """The line to a device, and the device at its end: each request is followed by a few parts of its work."""

    def __init__(self, device: Device, *, share: float = 0.0, seed: int = 0, unit: int = 1) -> None:
        self.device, self.store = device, Store(unit=unit)
        self.damage = Damage(share, seed)
        self.is_asleep, self.reboots_in, self.slices = False, -1, 9
        self.sent = self.received = 0
        self._answers, self._come = bytearray(), bytearray()
        self.boot()

    def boot(self) -> None:
        """Switches the power on: only the store's content is known."""
        assert self.device.init() == OK
        assert self.device.begin_link(self.store, self._answers.extend, places=False) == OK
        assert self.device.join_fleet() == OK

    @property
    def in_waiting(self) -> int:
        return len(self._come)

    def read(self, size: int = 1, /) -> bytes:
        data = bytes(self._come[:size])
        del self._come[:size]
        return data

    def write(self, data: bytes, /) -> int:
        if self.is_asleep:
            return len(data)
        self.received += len(data)
        if self.reboots_in == 0:
            self.boot()
        self.reboots_in -= 1
        self._answers.clear()
        self.device.serve(self.damage.of(data))
        self.sent += len(self._answers)
        self._come += self.damage.of(bytes(self._answers))
        for _ in range(self.slices):
            if self.device.is_evaluating:
                self.device.work()
        return len(data)

    def close(self) -> None:
        self._come.clear()


class Fleet:
    """Devices, desktop clients with the same data, and a server, for a run of `device.runs`."""

    def __init__(self, folder: Path, run: str, count: int, steps: int = STEPS, **options: Any) -> None:
        model, settings = zo_model(run), RUNS[run][1]
        self.model, self.settings, self.folder = model, settings, folder
        self.data = [samples(seed) for seed in range(1, count + 1)]
        self.server = FleetLog(model, settings, steps, SAMPLES, folder / "server.zolog")
        firmware = generated(model, settings, samples(), steps=steps)
        self.ports = {}
        for number, data in enumerate(self.data):
            name, own = "abcdefgh"[number], folder / str(number)
            own.mkdir()
            self.ports[name] = FleetPort(Device(firmware, model, data, own), seed=number, **options)

    def gateway(self, **options: Any) -> Gateway:
        lines = {name: (lambda port=port: port) for name, port in self.ports.items()}
        options.setdefault("log", self.folder / "gateway.zolog")
        return Gateway(self.model, self.server.header, lines, **options)

    def replicas(self) -> list[Replica]:
        return [Replica(self.model, self.server.header, d.inputs[0], d.labels) for d in self.data]

    @property
    def checksums(self) -> set[int]:
        found = set()
        for port in self.ports.values():
            assert port.device.settle() == OK
            found.add(port.device.checksum())
        return found


def decided(server: FleetLog, answers: list[Any], members: Iterable[Any]) -> bytes:
    """Decides a step, whose record all members take."""
    record = server.decide(answers)
    for member in members:
        member.take(record)
    return record


@contextlib.contextmanager
def fleet(folder: Path, run: str, count: int = 2, **options: Any) -> Iterator[Fleet]:
    made = Fleet(folder, run, count, **options)
    try:
        yield made
    finally:
        made.server.close()
