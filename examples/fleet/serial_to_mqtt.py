# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Brings a device on a serial line to an MQTT broker, where `tflm-zo gateway` finds it.

    python serial_to_mqtt.py /dev/ttyACM0 kitchen mqtt://localhost/fleet

The port is a device file or a URL of pyserial's, such as ``socket://localhost:4000``. The gateway's requests
come from the topic ``fleet/kitchen/ask``, the device's answers go to ``fleet/kitchen/answer``, and each
message is one frame. The bridge reconnects to port and broker. A user's password is in the environment as
TFLM_ZO_MQTT_PASSWORD. A device with a network of its own needs no bridge: it passes the payload of each
message to ``zo_link_serve``, and publishes the answer.
"""

from __future__ import annotations

import argparse
import time

import serial

from tflm_zo.fleet.mqtt import Broker
from tflm_zo.link import open_port
from tflm_zo.link.protocol import FrameReader, to_frame


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", help="device file, or a URL of pyserial's")
    parser.add_argument("device", help="name of the device, a part of its topics")
    parser.add_argument("broker", help="mqtt://[USER@]HOST[:PORT]/PREFIX, or mqtts://")
    parser.add_argument("--baud", type=int, default=115200)
    given = parser.parse_args()
    broker = Broker.of(given.broker)
    topic = f"{broker.prefix}/{given.device}"
    asked: list[bytes] = []

    client = broker.client()
    client.on_connect = lambda client, *_: client.subscribe(f"{topic}/ask")
    client.on_message = lambda _client, _data, message: asked.append(bytes(message.payload))
    client.loop_start()

    while True:
        try:
            port = open_port(given.port, given.baud)
            frames = FrameReader()
            while True:
                while asked:
                    port.write(asked.pop(0))
                received = port.read(1)
                if received and (waiting := port.in_waiting):
                    received += port.read(waiting)
                # Frames that the line has damaged end here; the gateway asks again.
                for content in frames.take(received):
                    client.publish(f"{topic}/answer", to_frame(content))
        except (OSError, serial.SerialException) as error:
            print(f"{given.port}: {error}; trying again", flush=True)
            asked.clear()
            time.sleep(0.5)


if __name__ == "__main__":
    main()
