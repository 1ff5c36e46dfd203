# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The lines to the devices of a gateway, as the command line and a node's configuration name them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..link import open_port
from ..link.link import Port

__all__ = ["Lines"]


@dataclass(frozen=True)
class Lines:
    """Lines to devices.

    Attributes:
        ports: names of pyserial's, by the device's name.
        baud: bits a second of serial ports.
        broker: URL of an MQTT broker, see `tflm_zo.fleet.mqtt.MqttLines`; "": there is none.
        devices: names of the devices at the broker.
    """

    ports: Mapping[str, str]
    baud: int = 115200
    broker: str = ""
    devices: Sequence[str] = ()

    @property
    def open(self) -> dict[str, Callable[[], Port]]:
        """What opens each line, by the device's name.

        Raises:
            ValueError: the broker's URL is none, a device has no name, or two have the same.
        """
        found = {name: self._serial(port) for name, port in self.ports.items()}
        if self.broker:
            from .mqtt import MqttLines

            mqtt = MqttLines(self.broker)
            for name in self.devices:
                if name in found:
                    raise ValueError(f"two devices have the name {name}")
                found[name] = mqtt.line(name)
        return found

    def _serial(self, port: str) -> Callable[[], Port]:
        return lambda: open_port(port, self.baud)

    def write(self) -> str:
        """Returns the lines as text without a single quote, for a node's configuration."""
        text = json.dumps([dict(self.ports), self.baud, self.broker, list(self.devices)])
        return text.replace("'", "\\u0027")

    @classmethod
    def read(cls, text: str) -> Lines:
        """Reads what `write` has written.

        Raises:
            ValueError: it is something else.
        """
        try:
            ports, baud, broker, devices = json.loads(text)
            return cls(dict(ports), int(baud), str(broker), [str(name) for name in devices])
        except (TypeError, ValueError) as error:
            raise ValueError(f"no lines to devices: {text!r}") from error
