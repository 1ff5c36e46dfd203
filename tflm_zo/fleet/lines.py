"""Lines to the devices of a gateway, and serial ports that several programs use in turn."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ..link import open_port
from ..link.link import Port


@dataclass(frozen=True)
class Lines:
    """Lines to devices."""

    ports: Mapping[str, str]  # names of pyserial ports, by the device's name
    baud: int = 115200  # bit rate of serial ports
    broker: str = ""  # URL of an MQTT broker, see `tflm_zo.fleet.mqtt.MqttLines`, or ""
    devices: Sequence[str] = ()  # names of the devices at the broker

    @property
    def open(self) -> dict[str, Callable[[], Port]]:
        """Returns a function that opens each line, by the device's name. Raises ValueError if the broker's URL is not
        valid, a device has no name, or two have the same.
        """
        found: dict[str, Callable[[], Port]] = {
            name: partial(open_port, port, self.baud) for name, port in self.ports.items()
        }
        if self.broker:
            from .mqtt import MqttLines

            mqtt = MqttLines(self.broker)
            for name in self.devices:
                if name in found:
                    raise ValueError(f"two devices have the name {name}")
                found[name] = mqtt.line(name)
        return found

    def write(self) -> str:
        """Serializes the lines as text without single quotes, for a node's configuration."""
        text = json.dumps([dict(self.ports), self.baud, self.broker, list(self.devices)])
        return text.replace("'", "\\u0027")

    @classmethod
    def read(cls, text: str) -> Lines:
        """Reads the result of `write`. Raises ValueError if the text is not valid."""
        try:
            ports, baud, broker, devices = json.loads(text)
            return cls(dict(ports), int(baud), str(broker), [str(name) for name in devices])
        except (TypeError, ValueError) as error:
            raise ValueError(f"no lines to devices: {text!r}") from error


_AGAIN: Final = 0.5  # seconds until a port that was lost is opened again


@contextlib.contextmanager
def kept_ports(ports: Mapping[str, Callable[[], Port]]) -> Iterator[dict[str, str]]:
    """Opens ports by functions, by the device's name, and forwards a local network port to each of them. Yields the
    pyserial URL of each forwarded port, by the device's name.
    """
    kept = [_KeptPort(connect) for connect in ports.values()]
    try:
        yield {name: one.url for name, one in zip(ports, kept, strict=True)}
    finally:
        for one in kept:
            one.close()


class _KeptPort:
    """A forwarded port. It serves one program at a time, the last one that connected."""

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
        """URL for pyserial."""
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
