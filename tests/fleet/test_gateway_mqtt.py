"""A gateway and devices in processes of their own, with a broker and bridges between them that are killed."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from device.emulation import needs_compiler
from device.runs import RUNS, SAMPLES, samples, zo_model
from fleet.broker import Broker as OwnBroker
from fleet.broker import bridge, broker, locked_broker, needs_broker, needs_certificates
from fleet.devices import decided
from link.board import Board, board
from tflm_zo.fleet import FleetError, FleetLog, Gateway, Replica, sum_of
from tflm_zo.fleet.mqtt import Broker, MqttLines

pytestmark = [needs_compiler, needs_broker]
RUN, STEPS, NAMES = "weight", 12, "ab"


@contextlib.contextmanager
def cohort(folder: Path) -> Iterator[tuple[OwnBroker, dict[str, Board]]]:
    with contextlib.ExitStack() as stack:
        made, boards = stack.enter_context(broker(folder)), {}
        for seed, name in enumerate(NAMES, 1):
            (folder / name).mkdir()
            options = ("--fleet", "--data", seed, "--steps", STEPS)
            boards[name] = stack.enter_context(board(folder / name, RUN, *options))
            stack.enter_context(bridge(boards[name].port, name, made.url))
        yield made, boards


@contextlib.contextmanager
def gateway(lines: MqttLines, server: FleetLog, folder: Path, **options: float) -> Iterator[Gateway]:
    opens = {name: lines.line(name) for name in NAMES}
    with Gateway(zo_model(RUN), server.header, opens, log=folder / "gateway.zolog", **options) as made:
        yield made


@pytest.mark.slow
def test_devices_and_the_broker_are_killed(tmp_path: Path) -> None:
    model = zo_model(RUN)
    server = FleetLog(model, RUNS[RUN][1], STEPS, SAMPLES, tmp_path / "server.zolog")
    data = [samples(seed) for seed in range(1, len(NAMES) + 1)]
    replicas = [Replica(model, server.header, d.inputs[0], d.labels) for d in data]
    with cohort(tmp_path) as (made, boards), contextlib.ExitStack() as stack:
        lines = MqttLines(made.url)
        stack.callback(lines.close)
        own = stack.enter_context(gateway(lines, server, tmp_path, deadline=30))

        def power_fails() -> None:
            boards["b"].cut_power()
            boards["b"].begin()

        def broker_vanishes() -> None:
            made.kill()
            time.sleep(1)
            made.begin()

        for step in range(STEPS):
            breaks = None
            if step == 5:
                breaks = threading.Timer(0.02, power_fails)
            if step == 9:
                breaks = threading.Timer(0.02, broker_vanishes)
            if breaks is not None:
                breaks.start()
            found, expected = own.answer(), sum_of([r.answer() for r in replicas])
            if breaks is not None:
                breaks.join()
            assert own.left_out == {}
            assert (found.differences.tolist(), found.loss) == (expected.differences.tolist(), expected.loss)
            decided(server, [found], (own, *replicas))
        states = own.update()
        assert {s.weights for s in states.values()} == {server.weights_checksum}
        log = (tmp_path / "server.zolog").read_bytes()
        for one in boards.values():
            assert one.flash[: len(log)] == log
    server.close()


@pytest.mark.slow
def test_a_broker_that_stays_away(tmp_path: Path) -> None:
    server = FleetLog(zo_model(RUN), RUNS[RUN][1], STEPS, SAMPLES, tmp_path / "server.zolog")
    with cohort(tmp_path) as (made, _), contextlib.ExitStack() as stack:
        lines = MqttLines(made.url)
        stack.callback(lines.close)
        own = stack.enter_context(gateway(lines, server, tmp_path, deadline=3))
        own.take(server.decide([own.answer()]))
        made.kill()
        with pytest.raises(FleetError, match="step 1: no device has answered .a: .*the MQTT broker at 127.0.0.1"):
            own.answer()
        made.begin()
        for _ in range(60):
            with contextlib.suppress(FleetError):  # the bridges come back one by one, each within 5 s
                own.answer()
            if not own.left_out:
                break
            time.sleep(0.5)  # the excluded device is hardly waited for
        assert own.left_out == {} and own.step == 1
        assert {s.weights for s in own.update().values()} == {server.weights_checksum}
    server.close()


@pytest.mark.slow
@needs_certificates
def test_a_broker_that_asks_for_a_password_and_speaks_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, (seed, name) = zo_model(RUN), (1, "a")
    server = FleetLog(model, RUNS[RUN][1], STEPS, SAMPLES, tmp_path / "server.zolog")
    data = samples(seed)
    replica = Replica(model, server.header, data.inputs[0], data.labels)
    with locked_broker(tmp_path, "cook", "pa:ss/word") as (made, certificate), contextlib.ExitStack() as stack:
        at = f"127.0.0.1:{made.port}/fleet"

        check_is_refused(f"mqtts://cook:x@{at}", "CERTIFICATE_VERIFY_FAILED")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        check_is_refused(f"mqtts://{at}", "refuses: Not authorized")
        check_is_refused(f"mqtts://cook:x@{at}", "refuses: Not authorized")
        monkeypatch.setenv("TFLM_ZO_MQTT_PASSWORD", "pa:ss/word")
        one = stack.enter_context(board(tmp_path, RUN, "--fleet", "--data", seed, "--steps", STEPS))
        stack.enter_context(bridge(one.port, name, f"mqtts://cook@{at}"))
        lines = MqttLines(f"mqtts://cook@{at}")
        stack.callback(lines.close)
        opens, log = {name: lines.line(name)}, tmp_path / "gateway.zolog"
        own = stack.enter_context(Gateway(model, server.header, opens, log=log, deadline=30))
        for _ in range(3):
            found, expected = own.answer(), replica.answer()
            assert (found.differences.tolist(), found.loss) == (expected.differences.tolist(), expected.loss)
            decided(server, [found], (own, replica))
        assert {s.weights for s in own.update().values()} == {server.weights_checksum}
    server.close()


def check_is_refused(url: str, reason: str) -> None:
    lines = MqttLines(url)
    for _ in range(20):
        with pytest.raises(ConnectionError) as found:
            lines.line("a")()
        if reason in str(found.value):
            break
    lines.close()
    assert reason in str(found.value)


def test_a_password_is_not_shown() -> None:
    broker = Broker.of("mqtts://cook:pa%3Ass@localhost/fleet")
    assert (broker.password, broker.port, broker.tls) == ("pa:ss", 8883, True)
    assert "pa:ss" not in repr(broker)


def test_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    lines = MqttLines(f"mqtt://127.0.0.1:{port}/fleet")
    with pytest.raises(OSError, match=f"the MQTT broker at 127.0.0.1:{port} does not answer"):
        lines.line("a")()
    lines.close()


@pytest.mark.parametrize("url", ["localhost", "mqtt://", "mqtt://localhost", "http://localhost/a", "mqtt://h/a/+"])
def test_what_is_no_broker(url: str) -> None:
    with pytest.raises(ValueError, match="must be mqtt://HOST"):
        MqttLines(url)


@pytest.mark.parametrize("name", ["", "a/b", "#", "+"])
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(ValueError, match="names no device"):
        MqttLines("mqtt://localhost/fleet").line(name)
