"""Four emulated Cortex-M4 train one model together: serial lines, bridges to an MQTT broker, a gateway."""

import contextlib
import re
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cortex_m.emulator import CORES
from fleet.broker import bridge, broker, needs_broker
from fleet.devices import decided
from fleet.gateway_app import gateway_command, mqtt_lines, write_app
from helpers.firmware_folders import zo_model
from helpers.pages import HOW_TO, blocks
from tflm_checkout.firmware_build import LIBRARIES, build_firmware, replace_main
from tflm_checkout.test_link import UARTS, EmulatedBoard, emulated
from tflm_zo.data import Data
from tflm_zo.firmware import generate_firmware
from tflm_zo.fleet import FleetLog, Gateway, Replica, sum_of
from tflm_zo.fleet.mqtt import MqttLines
from tflm_zo.link import Link
from tflm_zo.logs import Log, replay_log
from tflm_zo.training import Settings, Weights

HERE = Path(__file__).parent
LIBRARY = next(library for library in LIBRARIES if library.name == "cortex-m4-cmsis_nn")
STEPS, DEVICES, OWN = 50, "abcd", 6
SETTINGS = Settings(tasks=(Weights(queries=2),), batch_size=4, seed=3, learning_rate=20.0)


def data() -> Data:
    rng = np.random.default_rng(4)
    count = len(DEVICES) * OWN
    x = rng.integers(-128, 128, (count, 8, 8, 1)).astype(np.int8)
    return Data([x], rng.integers(0, 4, count).astype(np.int32))


def power_on(folder: Path, elf: Path, number: int) -> contextlib.AbstractContextManager[EmulatedBoard]:
    folder.mkdir()
    return emulated(CORES[LIBRARY.core], elf, folder, bytes([number]))


def firmware_of(folder: Path) -> Path:
    if reason := LIBRARY.why_not():
        pytest.skip(reason)
    samples = data()
    made = generate_firmware(
        zo_model("weight"), SETTINGS, steps=STEPS, samples=len(samples), name="small", data=samples
    )
    made.write(folder / "out")
    (of_page,) = blocks(HOW_TO / "fleet-of-devices.md", "cpp")
    names = {"sensor_zo::": "tflm_zo::", "sensor_zo_": "zo_", "SENSOR_ZO_": "ZO_"}
    page = re.sub("|".join(names), lambda found: names[found[0]], of_page.text)
    program = (HERE / "fleet_board.cc").read_text().replace('#include "fleet_program.h"', page)
    replace_main(folder / "out", f"#define UART_BASE {UARTS[LIBRARY.core]:#x}u\n{program}")
    return build_firmware(LIBRARY, folder / "out", folder / "build")


@needs_broker
def test_four_boards_train_one_model(tmp_path: Path) -> None:
    elf, model, samples = firmware_of(tmp_path), zo_model("weight"), data()
    server = FleetLog(model, SETTINGS, STEPS, len(samples), tmp_path / "server.zolog")
    own = [slice(OWN * i, OWN * (i + 1)) for i in range(len(DEVICES))]
    replicas = [Replica(model, server.header, samples.inputs[0][s], samples.labels[s]) for s in own]

    with contextlib.ExitStack() as stack:
        boards, mqtt = {}, stack.enter_context(broker(tmp_path))
        for number, name in enumerate(DEVICES):
            boards[name] = stack.enter_context(power_on(tmp_path / name, elf, number))
            stack.enter_context(bridge(boards[name].port, name, mqtt.url))
        traffic = stack.enter_context(mqtt.traffic())
        lines = MqttLines(mqtt.url)
        stack.callback(lines.close)
        opens = {name: lines.line(name) for name in DEVICES}
        gateway = stack.enter_context(Gateway(model, server.header, opens, log=tmp_path / "gateway.zolog", deadline=60))
        begin, seconds = time.monotonic(), []
        for step in range(STEPS):
            cut = None
            if step == STEPS // 2:  # within the evaluation

                def power_cycle() -> None:
                    boards["c"].cut_power()
                    boards["c"].begin()

                cut = threading.Timer(0.5 * seconds[-1], power_cycle)
                cut.start()
            round_begin = time.monotonic()
            answer, expected = gateway.answer(), sum_of([r.answer() for r in replicas])
            if cut is not None:
                cut.join()
                assert boards["c"].first_line == f"begun at step {step}\n"
            assert gateway.left_out == {}
            assert answer.differences.tolist() == expected.differences.tolist()
            assert (answer.loss, answer.samples) == (expected.loss, len(DEVICES) * 4)
            decided(server, [answer], (gateway, *replicas))
            seconds.append(time.monotonic() - round_begin)
        states = gateway.update()
        server.close()
        assert [*states] == [*DEVICES] and {s.step for s in states.values()} == {STEPS}
        assert {s.weights for s in states.values()} == {server.weights_checksum}
        log = (tmp_path / "server.zolog").read_bytes()
        for board in boards.values():
            assert board.flash[: len(log)] == log
        print(
            f"{STEPS} rounds in {time.monotonic() - begin:.1f} s, {np.median(seconds):.2f} s each; bytes a "
            f"round and device: {traffic.per(STEPS * len(DEVICES))}"
        )
    weights, _ = replay_log(model, tmp_path / "server.zolog")
    for name, values in replicas[0].weights[0].items():
        assert np.array_equal(values.ravel(), weights[name].ravel())


@pytest.mark.slow
@needs_broker
@pytest.mark.skipif(find_spec("flwr") is None, reason="NO flwr: FLOWER WITH EMULATED BOARDS WAS NOT TESTED")
def test_four_boards_are_one_client_of_flower(tmp_path: Path) -> None:
    """Starts a SuperLink, and a SuperNode by `tflm-zo gateway`; a board loses its power in the middle."""
    elf, count = firmware_of(tmp_path), len(data())
    model, log, app = tmp_path / "small.zo.tflite", tmp_path / "server.zolog", tmp_path / "app"
    model.write_bytes(zo_model("weight").to_bytes())
    write_app(app, model=model, log=log, steps=STEPS, samples=count, devices=len(DEVICES))
    from harness.flower_processes import flower_programs, free_port, run_app

    with contextlib.ExitStack() as stack:
        boards, mqtt = {}, stack.enter_context(broker(tmp_path))
        for number, name in enumerate(DEVICES):
            boards[name] = stack.enter_context(power_on(tmp_path / name, elf, number))
            stack.enter_context(bridge(boards[name].port, name, mqtt.url))
        traffic, port = stack.enter_context(mqtt.traffic()), free_port()
        stack.enter_context(flower_programs(tmp_path, [], port))
        lines = mqtt_lines(mqtt.url, DEVICES)
        stack.enter_context(gateway_command(tmp_path, model, port, free_port(), *lines))

        def power_cycle() -> None:
            while not log.exists() or len(Log.read(log).steps) < STEPS // 2:
                time.sleep(0.05)
            boards["c"].cut_power()
            boards["c"].begin()

        cut = threading.Thread(target=power_cycle)
        cut.start()
        begin = time.monotonic()
        output = run_app(tmp_path, app, "", timeout=1800)
        seconds = time.monotonic() - begin
        cut.join()
        assert boards["c"].first_line.split()[-1] in (str(STEPS // 2), str(STEPS // 2 - 1))
        assert "is left out" not in output, output
        known = log.read_bytes()
        assert len(Log.read(log).steps) == STEPS
        assert (tmp_path / "gateway.zolog").read_bytes() == known
        for board in boards.values():
            assert board.flash[: len(known)] == known
        # The checksums of weights, as the boards say them.
        opens = {name: MqttLines(mqtt.url).line(name) for name in DEVICES}
        weights = set()
        for connect in opens.values():
            with Link(connect) as link:
                weights.add(link.fleet_state().weights)
        server = FleetLog(zo_model("weight"), SETTINGS, STEPS, count, log, resume=True)
        assert weights == {server.weights_checksum}
        server.close()
        print(f"{STEPS} rounds of Flower in {seconds:.0f} s; {traffic.per(STEPS * len(DEVICES))}")
