"""Lines to devices over MQTT. A message is one frame."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from ..link.link import Port

# Seconds for which a read waits for the next message, and an attempt to open a line for the broker: links try again.
_POLL: Final = 0.02
_CONNECTING: Final = 0.4
_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True)
class Broker:
    """The address and the login of a broker."""

    host: str  # name or address
    port: int  # number of the port
    prefix: str  # prefix of all topics
    user: str = ""  # name of the user, or ""
    password: str = field(default="", repr=False)  # the user's
    # True for an encrypted connection with a check of the broker's certificate, against the authorities of
    # the system or of the file in the environment variable SSL_CERT_FILE
    tls: bool = False

    @classmethod
    def of(cls, url: str) -> Broker:
        """Parses ``mqtt://[USER[:PASSWORD]@]HOST[:PORT]/PREFIX``, or ``mqtts://`` for TLS; raises ValueError for
        another URL. The environment variable TFLM_ZO_MQTT_PASSWORD may have the password instead.
        """
        parts = urlsplit(url)
        prefix = unquote(parts.path.strip("/"))
        if parts.scheme not in _PORTS or not parts.hostname or not prefix or set("+#") & {*prefix}:
            raise ValueError(f"The broker must be mqtt://HOST[:PORT]/PREFIX. Received: {url}.")
        return cls(
            parts.hostname,
            parts.port or _PORTS[parts.scheme],
            prefix,
            unquote(parts.username or ""),
            unquote(parts.password or "") or os.environ.get("TFLM_ZO_MQTT_PASSWORD", ""),
            parts.scheme == "mqtts",
        )

    def client(self) -> paho.Client:
        """Returns a paho client for this broker. ``loop_start`` connects it; a lost connection is restored."""
        found = paho.Client(CallbackAPIVersion.VERSION2)
        if self.user:
            found.username_pw_set(self.user, self.password)
        if self.tls:
            found.tls_set()
        found.reconnect_delay_set(1, 5)
        found.connect_async(self.host, self.port, keepalive=30)
        return found


class MqttLines:
    """The connection to a broker by its URL, see `Broker.of`. Requests go to ``PREFIX/DEVICE/ask``, answers come from
    ``PREFIX/DEVICE/answer``; each message is a frame. It reconnects if the connection is lost.
    """

    def __init__(self, url: str) -> None:
        self._broker = Broker.of(url)
        self._prefix = self._broker.prefix
        self._lines: dict[str, _Line] = {}
        self.news = threading.Condition()
        self._client = self._broker.client()
        self._client.on_connect = self._subscribe
        self._client.on_connect_fail = self._fail
        self._client.on_subscribe = self._begin
        self._client.on_disconnect = self._end
        self._client.on_message = self._take
        self._is_open = self._is_begun = False
        self._refused = self._failed = ""

    @property
    def name(self) -> str:
        """Name of the broker in messages."""
        return f"the MQTT broker at {self._broker.host}:{self._broker.port}"

    # --- calls of the client's thread ------------------------------------------------------------------

    def _subscribe(self, client: paho.Client, data: object, flags: object, reason: object, *_: object) -> None:
        self._refused = str(reason) if getattr(reason, "is_failure", False) else ""
        if not self._refused:
            client.subscribe(f"{self._prefix}/+/answer", qos=1)
        with self.news:
            self.news.notify_all()

    def _fail(self, *_: object) -> None:
        with self.news:  # paho calls this where it has caught the error
            self._failed = f": {sys.exc_info()[1]}"
            self.news.notify_all()

    def _begin(self, *_: object) -> None:
        with self.news:
            self._is_open, self._failed = True, ""
            self.news.notify_all()

    def _end(self, *_: object) -> None:
        with self.news:
            self._is_open = False
            self.news.notify_all()

    def _take(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        device = message.topic[len(self._prefix) + 1 :].removesuffix("/answer")
        with self.news:
            if device in self._lines:
                self._lines[device].come += message.payload
            self.news.notify_all()

    # --- calls of links ---------------------------------------------------------------------------------

    def line(self, device: str) -> Callable[[], Port]:
        """Returns a function that opens the line to a device. Raises ValueError if the name is not valid in a topic."""
        if not device or set("+#/") & {*device}:
            raise ValueError(f"{device!r} names no device: it would be a part of a topic")
        return lambda: self._open(device)

    def _open(self, device: str) -> Port:
        """Opens the line to a device. Raises OSError if the broker cannot be reached."""
        with self.news:
            if not self._is_begun:
                self._client.loop_start()
                self._is_begun = True
            if not self.news.wait_for(lambda: self._is_open or self._refused, _CONNECTING):
                raise ConnectionError(f"{self.name} does not answer{self._failed}")
            if not self._is_open:
                raise ConnectionError(f"{self.name} refuses: {self._refused}")
            line = self._lines[device] = _Line(self, device)
        return line

    def check(self) -> None:
        """Raises OSError if the connection to the broker is lost."""
        if not self._is_open:
            raise ConnectionError(f"{self.name} has vanished")

    def send(self, device: str, data: bytes) -> None:
        """Sends a frame to a device."""
        self.check()
        self._client.publish(f"{self._prefix}/{device}/ask", data)

    def close(self) -> None:
        """Closes the connection."""
        self._client.disconnect()
        self._client.loop_stop()


class _Line:
    """The line to a device, a `tflm_zo.link.Port`. `come` has the bytes that can be read."""

    def __init__(self, lines: MqttLines, device: str) -> None:
        self._lines, self._device, self.come = lines, device, b""

    @property
    def in_waiting(self) -> int:
        return len(self.come)

    def read(self, size: int = 1, /) -> bytes:
        with self._lines.news:
            until = time.monotonic() + _POLL
            while not self.come and (left := until - time.monotonic()) > 0:
                self._lines.check()
                self._lines.news.wait(left)
            data, self.come = self.come[:size], self.come[size:]
        return data

    def write(self, data: bytes, /) -> int:
        self._lines.send(self._device, data)
        return len(data)

    def close(self) -> None:
        self.come = b""
