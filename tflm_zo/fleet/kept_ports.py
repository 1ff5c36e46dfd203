# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Serial ports that stay open while programs that use them come and go.

Flower runs each message in a process of its own, and many boards are reset whenever their port is opened.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ..link.link import Port

__all__ = ["kept_ports"]

_AGAIN: Final = 0.5  # seconds until a port that was lost is opened again


@contextlib.contextmanager
def kept_ports(ports: Mapping[str, Callable[[], Port]]) -> Iterator[dict[str, str]]:
    """Opens ports, and leads to each of them from a port of this machine.

    Args:
        ports: what opens a port, by the device's name.

    Yields:
        What pyserial opens instead, by the device's name.
    """
    kept = [_KeptPort(connect) for connect in ports.values()]
    try:
        yield {name: one.url for name, one in zip(ports, kept, strict=True)}
    finally:
        for one in kept:
            one.close()


class _KeptPort:
    """A port, and where it is found on this machine: by one program at a time, the one that came last."""

    def __init__(self, connect: Callable[[], Port]) -> None:
        self._connect, self._ended = connect, threading.Event()
        self._port: Port | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._user: socket.socket | None = None
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._from_users, self._to_users)]
        for thread in self._threads:
            thread.start()

    @property
    def url(self) -> str:
        """What pyserial opens."""
        return f"socket://127.0.0.1:{self._listener.getsockname()[1]}"

    def _from_users(self) -> None:
        while not self._ended.is_set():
            try:
                user, _ = self._listener.accept()
            except OSError:
                return
            user.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._user = user
            threading.Thread(target=self._from_user, args=(user,), daemon=True).start()

    def _from_user(self, user: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := user.recv(4096):
                port = self._port
                if port is not None:
                    port.write(data)

    def _to_users(self) -> None:
        while not self._ended.is_set():
            try:
                port = self._port = self._connect()
                while not self._ended.is_set():
                    data = port.read(1)
                    if data and (waiting := port.in_waiting):
                        data += port.read(waiting)
                    user = self._user
                    if data and user is not None:
                        with contextlib.suppress(OSError):
                            user.sendall(data)
            except OSError:
                self._ended.wait(_AGAIN)
            finally:
                if self._port is not None:
                    with contextlib.suppress(OSError):
                        self._port.close()
                self._port = None

    def close(self) -> None:
        self._ended.set()
        for end in (self._listener, self._user):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        for thread in self._threads:
            thread.join(2)
