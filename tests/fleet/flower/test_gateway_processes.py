"""Flower's own SuperLink and SuperNode, `tflm-zo gateway`, a broker, bridges and devices, each a process."""

import contextlib
import threading
import time
from pathlib import Path

import pytest
from harness.flower_processes import flower_programs, free_port, run_app

from device.emulation import needs_compiler
from device.runs import RUNS, SAMPLES, samples, zo_model
from fleet.broker import bridge, broker, needs_broker
from fleet.devices import decided
from fleet.gateway_app import gateway_command, mqtt_lines, write_app
from link.board import board
from tflm_zo.fleet import FleetLog, Replica
from tflm_zo.logs import Log

pytestmark = [needs_compiler, needs_broker, pytest.mark.slow]
RUN, STEPS, NAMES = "weight", 4, "ab"


def alone(path: Path) -> None:
    data = [samples(seed) for seed in range(1, len(NAMES) + 1)]
    server = FleetLog(zo_model(RUN), RUNS[RUN][1], STEPS, SAMPLES, path)
    replicas = [Replica(zo_model(RUN), server.header, d.inputs[0], d.labels) for d in data]
    for _ in range(STEPS):
        decided(server, [replica.answer() for replica in replicas], replicas)
    server.close()


def test_a_cohort_is_one_client_of_flower(tmp_path: Path) -> None:
    model, log = tmp_path / "small.zo.tflite", tmp_path / "server.zolog"
    model.write_bytes(zo_model(RUN).to_bytes())
    alone(tmp_path / "alone.zolog")
    app = tmp_path / "app"
    write_app(app, model=model, log=log, steps=STEPS, samples=SAMPLES, devices=len(NAMES))
    with contextlib.ExitStack() as stack:
        made, boards = stack.enter_context(broker(tmp_path)), {}
        for seed, name in enumerate(NAMES, 1):
            (tmp_path / name).mkdir()
            options = ("--fleet", "--data", seed, "--steps", STEPS)
            boards[name] = stack.enter_context(board(tmp_path / name, RUN, *options))
            stack.enter_context(bridge(boards[name].port, name, made.url))
        port = free_port()
        stack.enter_context(flower_programs(tmp_path, [], port))
        lines = mqtt_lines(made.url, NAMES)
        said = stack.enter_context(gateway_command(tmp_path, model, port, free_port(), *lines))

        def power_cycle() -> None:
            while not log.exists() or len(Log.read(log).steps) < STEPS // 2:
                time.sleep(0.05)
            boards["b"].cut_power()
            boards["b"].begin()

        cut = threading.Thread(target=power_cycle)
        cut.start()
        output = run_app(tmp_path, app, "")
        cut.join()
        assert "is left out" not in output, output
        assert log.read_bytes() == (tmp_path / "alone.zolog").read_bytes()
        assert (tmp_path / "gateway.zolog").read_bytes() == log.read_bytes()
        for one in boards.values():
            assert one.flash[: len(log.read_bytes())] == log.read_bytes()
        assert "device" in said.read_text()
