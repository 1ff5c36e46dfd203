# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Bytes on the wire of a fleet over Flower's own programs, on this machine.

    python examples/fleet/prepare.py -o fleet
    python benchmarks/fleet_wire.py fleet [--steps 10]

A SuperLink and two SuperNodes run the app of examples/fleet. Each node's connections to the SuperLink go
through a program that counts bytes both ways: HTTP with its headers, Flower's envelopes and its polling for
messages included. The bytes of a run of two steps are subtracted from a longer one's.
"""

from __future__ import annotations

import argparse
import re
import socket
import tempfile
import threading
from pathlib import Path

from harness.flower_processes import flower_programs, free_port, run_app

APP = Path(__file__).parents[1] / "examples" / "fleet"


class Counter:
    """Passes connections on to a port, and counts their bytes.

    Attributes:
        port: where it listens.
        up: bytes that clients have sent.
        down: bytes that they have got.
    """

    def __init__(self, target: int) -> None:
        self._target, self.up, self.down = target, 0, 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            own, _ = self._socket.accept()
            try:
                other = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the SuperLink has ended before its nodes
                own.close()
                continue
            for source, sink, name in ((own, other, "up"), (other, own, "down")):
                threading.Thread(target=self._pass, args=(source, sink, name), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        try:
            while data := source.recv(65536):
                setattr(self, name, getattr(self, name) + len(data))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            sink.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder that examples/fleet/prepare.py created")
    parser.add_argument("--steps", type=int, default=10, help="(default: %(default)s)")
    options = parser.parse_args()
    folder = options.folder.resolve()
    model = folder / "digits.zo.tflite"
    nodes = [f'model="{model}" data="{folder}/client-{i}.npz"' for i in (0, 1)]
    port = free_port()
    counters = [Counter(port) for _ in nodes]
    with tempfile.TemporaryDirectory() as work, flower_programs(Path(work), nodes, port, [c.port for c in counters]):
        found: dict[int, tuple[float, list[tuple[int, int]]]] = {}
        # The first run brings the app to the nodes.
        for steps in (1, 2, 2 + options.steps):
            before = [(c.up, c.down) for c in counters]
            config = f'model="{model}" log="{work}/{steps}.zolog" steps={steps}'
            output = run_app(Path(work), APP, config)
            (seconds,) = re.findall(r"execution finished in ([\d.]+)s", output)
            passed = [(c.up - up, c.down - down) for c, (up, down) in zip(counters, before, strict=True)]
            found[steps] = float(seconds), passed
    (few, less), (many, more) = found[2], found[2 + options.steps]
    print(f"seconds of a round: {(many - few) / options.steps:.1f}")
    for number in range(len(nodes)):
        up, down = ((more[number][side] - less[number][side]) / options.steps for side in (0, 1))
        print(f"node {number}: {up:,.0f} bytes up and {down:,.0f} bytes down in a round")


if __name__ == "__main__":
    main()
