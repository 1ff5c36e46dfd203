"""A line between a host and a device that loses, doubles and changes bytes, and pieces of them.

It stays when the device does not: like a serial port, and unlike a connection.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from link.damage import Damage


class BadLine:
    """Listens on a port of this machine, and leads to a device's, with a share of `Damage`."""

    def __init__(self, device: int, share: float, seed: int = 0) -> None:
        self._device, self._damage = device, Damage(share, seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._hosts: list[socket.socket] = []
        self._far: socket.socket | None = None
        self._open = True
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._accept, self._from_device)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> BadLine:
        return self

    def __exit__(self, *_: Any) -> None:
        self._open = False
        for end in (self._listener, self._far, *self._hosts):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        for thread in self._threads:
            thread.join(5)

    @property
    def damaged(self) -> int:
        return self._damage.count

    @property
    def url(self) -> str:
        return f"socket://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while self._open:
            try:
                host, _ = self._listener.accept()
            except OSError:
                return
            host.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._hosts.append(host)
            thread = threading.Thread(target=self._pump, args=(host, self._to_device), daemon=True)
            thread.start()

    def _pump(self, end: socket.socket, to: Callable[[bytes], None]) -> None:
        with contextlib.suppress(OSError):
            while data := end.recv(4096):
                to(self._damage.of(data))

    def _to_device(self, data: bytes) -> None:
        if self._far is not None and data:
            with contextlib.suppress(OSError):
                self._far.sendall(data)

    def _to_host(self, data: bytes) -> None:
        if self._hosts and data:
            with contextlib.suppress(OSError):
                self._hosts[-1].sendall(data)

    def _from_device(self) -> None:
        while self._open:
            try:
                far = socket.create_connection(("127.0.0.1", self._device))
            except OSError:
                time.sleep(0.02)  # it has no power
                continue
            far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._far = far
            self._pump(far, self._to_host)
            self._far = None
            far.close()
