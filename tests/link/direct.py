"""A device in this process at the end of a bad line, which trains between requests and loses its power."""

import random

from device.emulation import OK, STORE, Device
from device.structs import Store
from link.damage import Damage


class Clock:
    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


CLOCK = Clock()


class HostKilledError(Exception):
    """The host's program is killed."""


class DirectPort:
    """The host's port, behind which the device is.

    Args:
        cuts: of how many writes to the port one is followed by a power cut in one of the store's next writes.
        until: steps, after which the device trains no more.

    Attributes:
        writes_left: requests until the host is killed; negative: it is not.
    """

    def __init__(
        self,
        device: Device,
        store: Store,
        *,
        places: bool = False,
        share: float = 0.0,
        seed: int = 0,
        cuts: int = 0,
        until: int = 6,
        buffer_bytes: int = 128,
    ) -> None:
        self._device, self._store, self._places = device, store, places
        self.damage = Damage(share, seed)
        self._random, self._cuts, self._until = random.Random(seed + 1), cuts, until
        self._buffer_bytes = buffer_bytes
        self._sent, self._come = bytearray(), bytearray()
        self.reboots, self.writes_left = 0, -1
        self.boot()

    def boot(self) -> None:
        self._store.fail_at(0)
        assert self._device.init() == OK
        began = self._device.begin_link(self._store, self._send, places=self._places, buffer_bytes=self._buffer_bytes)
        assert began == OK

    def _send(self, data: bytes) -> None:
        self._sent += data

    def train(self) -> None:
        if self._device.step < self._until:
            status, _ = self._device.train_slice()
            assert status in (OK, STORE)
        self._reboot_where_due()

    def _reboot_where_due(self) -> None:
        if self._store.c.failing_write and self._store.c.writes >= self._store.c.failing_write:
            self.reboots += 1
            self._come.clear()
            self.boot()

    def fail_read_at(self, read: int) -> None:
        self._store.fail_read_at(read)

    def calm(self) -> None:
        self._store.fail_at(0)

    # --- as serial.Serial ------------------------------------------------------------------------------

    @property
    def in_waiting(self) -> int:
        return len(self._come)

    def read(self, size: int = 1, /) -> bytes:
        if not self._come:
            CLOCK.sleep(0.02)
        data = bytes(self._come[:size])
        del self._come[:size]
        return data

    def write(self, data: bytes, /) -> int:
        if self.writes_left == 0:
            raise HostKilledError
        self.writes_left -= 1
        if self._cuts and not self._store.c.failing_write and not self._random.randrange(self._cuts):
            self._store.fail_at(1 + self._random.randrange(4), self._random.randrange(40))
        self._sent.clear()
        self._device.serve(self.damage.of(data))
        self._come += self.damage.of(bytes(self._sent))
        self._reboot_where_due()
        for _ in range(self._random.randrange(3)):
            self.train()
        return len(data)

    def close(self) -> None:
        self._come.clear()
