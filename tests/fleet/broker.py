# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
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
from pathlib import Path

import pytest

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
BRIDGE = Path(__file__).parents[2] / "examples" / "fleet" / "serial_to_mqtt.py"
needs_broker = pytest.mark.skipif(
    MOSQUITTO is None, reason="NO mosquitto: FLEETS OVER MQTT WERE NOT TESTED (apt-get install mosquitto)"
)


class Broker:
    """Mosquitto, which keeps its port when it is begun again.

    Args:
        folder: for its configuration.
    """

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._configuration = folder / "mosquitto.conf"
        self._configuration.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\nuser root\n"
        )
        self.url = f"mqtt://127.0.0.1:{self.port}/fleet"
        self.begin()

    def begin(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", self._configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.05)
        raise AssertionError("the broker does not begin")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    made = Broker(folder)
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
