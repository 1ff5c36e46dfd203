"""An MQTT broker on this machine, which can be killed, and bridges to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

paho = pytest.importorskip("paho.mqtt.client", reason="NO paho-mqtt: FLEETS OVER MQTT WERE NOT TESTED")

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
BRIDGE = Path(__file__).parents[2] / "examples" / "fleet" / "serial_to_mqtt.py"
needs_broker = pytest.mark.skipif(
    MOSQUITTO is None, reason="NO mosquitto: FLEETS OVER MQTT WERE NOT TESTED (apt-get install mosquitto)"
)

needs_certificates = pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("mosquitto_passwd")),
    reason="NO openssl OR mosquitto_passwd: BROKERS WITH PASSWORDS WERE NOT TESTED (apt-get install openssl)",
)


class Broker:
    """Mosquitto, which keeps its port when it is begun again; `lines` of its configuration let anybody in."""

    def __init__(self, folder: Path, lines: str = "allow_anonymous true\n") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._configuration = folder / "mosquitto.conf"
        self._configuration.write_text(f"listener {self.port} 127.0.0.1\n{lines}persistence false\nuser root\n")
        self.url = f"mqtt://127.0.0.1:{self.port}/fleet"
        self.begin()

    def begin(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", self._configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(1200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        raise AssertionError("the broker does not begin")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @contextlib.contextmanager
    def traffic(self) -> Iterator[Traffic]:
        found, client = Traffic(), paho.Client(paho.CallbackAPIVersion.VERSION2)
        client.on_connect = lambda client, *_: client.subscribe("#")
        client.on_message = lambda _client, _data, message: found.add(message.topic, message.payload)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        yield found
        client.disconnect()
        client.loop_stop()


@dataclass
class Traffic:
    """Counts of messages to and from devices, of the bytes in their frames, and of their MQTT packets (QoS 0)."""

    messages: int = 0
    frames: int = 0
    packets: int = 0

    def add(self, topic: str, payload: bytes) -> None:
        self.messages += 1
        self.frames += len(payload)
        length = 2 + len(topic) + len(payload)
        self.packets += 1 + (1 if length < 128 else 2) + length

    def per(self, count: int) -> str:
        return (
            f"{self.messages / count:.1f} messages, {self.frames / count:.0f} B of frames, "
            f"{self.packets / count:.0f} B of MQTT"
        )


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    with ended(Broker(folder)) as made:
        yield made


@contextlib.contextmanager
def locked_broker(folder: Path, user: str, password: str) -> Iterator[tuple[Broker, Path]]:
    """Starts a broker that speaks TLS and asks for a password; with its certificate, which nobody knows yet."""
    passwords, certificate, key = (folder / name for name in ("passwords", "own.crt", "own.key"))
    subprocess.run(["mosquitto_passwd", "-b", "-c", passwords, user, password], check=True)
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate)
    subprocess.run(["openssl", "req", *made, *names], check=True, capture_output=True)
    lines = f"allow_anonymous false\npassword_file {passwords}\ncertfile {certificate}\nkeyfile {key}\n"
    with ended(Broker(folder, lines)) as one:
        yield one, certificate


@contextlib.contextmanager
def ended(made: Broker) -> Iterator[Broker]:
    try:
        yield made
    finally:
        made.kill()


@contextlib.contextmanager
def bridge(port: int, name: str, url: str) -> Iterator[None]:
    """Brings a device on a port of this machine to a broker."""
    process = subprocess.Popen([sys.executable, BRIDGE, f"socket://127.0.0.1:{port}", name, url])
    try:
        yield
    finally:
        process.kill()
        process.wait()
