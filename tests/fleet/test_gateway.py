"""A gateway and devices, compiled for this machine, against desktop clients with the same data."""

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from device.emulation import needs_compiler
from device.runs import WEIGHT_RUNS
from fleet.devices import STEPS, Fleet, decided, fleet
from helpers.examples import slow_but
from link.damage import Damage
from tflm_zo.fleet import FleetError, Gateway, sum_of
from tflm_zo.link import Link, RefusedError
from tflm_zo.link.protocol import FrameReader, to_frame

pytestmark = needs_compiler


def do_steps(made: Fleet, gateway: Gateway, count: int) -> None:
    for _ in range(count):
        gateway.take(made.server.decide([gateway.answer()]))


@pytest.mark.parametrize("run", slow_but(["weight"], WEIGHT_RUNS))
def test_devices_answer_as_desktop_clients_do(run: str, tmp_path: Path) -> None:
    with fleet(tmp_path, run) as made, made.gateway() as gateway:
        replicas = made.replicas()
        for _ in range(STEPS):
            found, expected = gateway.answer(), sum_of([r.answer() for r in replicas])
            assert found.differences.tolist() == expected.differences.tolist()
            assert (found.loss, found.samples) == (expected.loss, expected.samples)
            assert gateway.left_out == {}
            decided(made.server, [found], (gateway, *replicas))
        states = gateway.update()
        assert {s.weights for s in states.values()} == {made.server.weights_checksum} == made.checksums
        assert {s.step for s in states.values()} == {STEPS}
        log = (tmp_path / "server.zolog").read_bytes()
        assert (tmp_path / "gateway.zolog").read_bytes() == log
        for port in made.ports.values():
            assert port.store.content(len(log)) == log
        with pytest.raises(ValueError, match="over"):
            gateway.answer()


@pytest.mark.slow
@pytest.mark.parametrize("unit", slow_but([1], [1, 8]))
def test_lines_that_lose_double_and_change_bytes(unit: int, tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 2, unit=unit) as made, made.gateway(deadline=60) as gateway:
        replicas = made.replicas()
        for port in made.ports.values():
            port.damage = Damage(0.004, unit)
        for _ in range(STEPS):
            expected = sum_of([r.answer() for r in replicas])
            found = gateway.answer()
            assert found.differences.tolist() == expected.differences.tolist()
            decided(made.server, [found], (gateway, *replicas))
        gateway.update()
        assert made.checksums == {made.server.weights_checksum}
        assert all(port.damage.count > 3 for port in made.ports.values())


@pytest.mark.slow
def test_a_device_that_sleeps_gets_what_it_has_missed(tmp_path: Path, caplog: Any) -> None:
    with fleet(tmp_path, "weight", 3) as made, made.gateway(deadline=3) as gateway:
        do_steps(made, gateway, 2)
        made.ports["b"].is_asleep = True
        # It is waited for once, until its own line says that there was no answer; then the others are.
        do_steps(made, gateway, 1)
        assert "does its program call" in gateway.left_out["b"]
        for _ in range(3):
            do_steps(made, gateway, 1)
            ((name, why),) = gateway.left_out.items()
            assert name == "b" and re.fullmatch(r"no answer in [\d.]+ s", why)
        assert "device b is left out: no answer" in caplog.text
        assert made.ports["b"].device.step == 1
        made.ports["b"].is_asleep = False
        # Another process knows from the file that it was silent, and asks it all the same.
        with made.gateway() as other:
            assert other.step == 6
            found = other.answer()
            assert other.left_out == {} and found.samples == 3 * 4
            assert made.ports["b"].device.step == 6
            assert made.checksums == {made.server.weights_checksum}


@pytest.mark.slow
def test_a_device_that_loses_its_power_at_any_request(tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 2) as made, made.gateway(deadline=20) as gateway:
        replicas = made.replicas()
        for step in range(STEPS):
            made.ports["a"].reboots_in = step % 5
            made.ports["a"].slices = 3 + step % 3
            found = gateway.answer()
            expected = sum_of([r.answer() for r in replicas])
            assert gateway.left_out == {} and found.differences.tolist() == expected.differences.tolist()
            decided(made.server, [found], (gateway, *replicas))
        gateway.update()
        assert made.checksums == {made.server.weights_checksum}


def test_a_device_that_lost_its_log_gets_all_of_it(tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 2) as made, made.gateway(deadline=20) as gateway:
        do_steps(made, gateway, 5)
        made.ports["a"].store.bytes[:] = 0xFF
        made.ports["a"].boot()
        assert made.ports["a"].device.step == 0
        do_steps(made, gateway, 1)
        assert gateway.left_out == {} and made.ports["a"].device.step == 5


def test_the_gateway_goes_on_from_its_log(tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 2) as made:
        path = tmp_path / "gateway.zolog"
        for _ in range(3):
            with made.gateway() as gateway:
                do_steps(made, gateway, 2)
            with path.open("ab") as file:
                file.write(b"the beginning of a record")
        with made.gateway() as gateway:
            assert gateway.step == 6
            gateway.update()
            gateway.take_snapshot(gateway.snapshot())
            with pytest.raises(FleetError, match="a gateway needs the records from step 6 on"):
                gateway.take_snapshot(made.server.snapshot())
        path.write_bytes(b"x" * 200)
        with pytest.raises(FleetError, match="another run"):
            made.gateway()


# --- bad input --------------------------------------------------------------------------------------------


class Forged:
    """Changes a device's answers, content by content, behind the frames' checksums."""

    def __init__(self, port: Any, change: Any) -> None:
        self._port, self._change, self._come = port, change, b""
        self._frames = FrameReader()

    @property
    def in_waiting(self) -> int:
        return len(self._come)

    def read(self, size: int = 1, /) -> bytes:
        data, self._come = self._come[:size], self._come[size:]
        return data

    def write(self, data: bytes, /) -> int:
        self._port.write(data)
        for content in self._frames.take(self._port.read(9999)):
            self._come += to_frame(self._change(content))
        return len(data)

    def close(self) -> None:
        self._port.close()


def changed(at: int, kind: str, value: int, *, operation: int) -> Any:
    def change(content: bytes) -> bytes:
        size = struct.calcsize(kind)
        if content[1] != operation | 0x80 or len(content) < at + size:
            return content
        return content[:at] + struct.pack(kind, value) + content[at + size :]

    return change


BAD: dict[str, tuple[Any, str]] = {
    "another model": (changed(8, "<I", 7, operation=1), "it has the model 07000000.*the fleet"),
    "another version": (changed(0, "<B", 2, operation=1), "speaks version 2 of the protocol"),
    "another run": (changed(12, "<I", 7, operation=6), "steps of another run"),
    "ahead": (changed(8, "<I", 9, operation=6), "it has 9 steps, of which the gateway knows 2"),
    "other weights": (changed(16, "<I", 7, operation=8), "weights after step 2 have the checksum 00000007"),
    "a difference": (changed(28, "<q", 1 << 40, operation=7), "a difference of 1.67772e\\+07 nats of 4 samples"),
    "a loss": (changed(20, "<q", -(1 << 60), operation=7), "a sum of losses"),
    "samples": (changed(16, "<I", 5, operation=7), "an answer of 5 samples, where a minibatch has 4"),
    "no sample": (changed(16, "<I", 0, operation=7), "an answer of 0 samples"),
    "another step": (changed(8, "<I", 1, operation=7), "an answer for step 1, where step 2"),
    "no answer": (lambda c: c[:-1] if c[1] == 0x87 and len(c) > 8 else c, "the device answers something else"),
    "no member": (lambda c: c[:4] + struct.pack("<I", 3) if c[1] == 0x86 else c, "it does not call zo_link_add_fleet"),
}


@pytest.mark.parametrize("name", slow_but(list(BAD)[::3], BAD))
def test_a_bad_device_is_left_out_by_name(name: str, tmp_path: Path) -> None:
    change, reason = BAD[name]
    with fleet(tmp_path, "weight", 2) as made:
        with made.gateway() as gateway:
            do_steps(made, gateway, 2)
        replica = made.replicas()[1]
        replica.take(made.server.records(0))
        good, forged = made.ports["b"], Forged(made.ports["a"], change)
        lines = {"a": lambda: forged, "b": lambda: good}
        before = (tmp_path / "gateway.zolog").read_bytes()
        with Gateway(made.model, made.server.header, lines, log=tmp_path / "gateway.zolog") as gateway:
            found, expected = gateway.answer(), replica.answer()
            assert re.search(reason, gateway.left_out["a"]), gateway.left_out
            assert [*gateway.left_out] == ["a"]
            assert found.differences.tolist() == expected.differences.tolist()
        assert (tmp_path / "gateway.zolog").read_bytes() == before
        # Nothing is lost: with true answers it is a member as before.
        with made.gateway() as gateway:
            assert gateway.answer().samples == 8 and gateway.left_out == {}


def test_records_that_do_not_follow_are_refused(tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 1) as made, made.gateway() as gateway:
        do_steps(made, gateway, 3)
        gateway.update()
        size, port = gateway.record_bytes, made.ports["a"]
        first, last = made.server.records(0)[:size], made.server.records(2)
        later = made.server.decide([gateway.answer()])
        damaged = bytearray(later)
        damaged[16] ^= 1  # a coefficient
        after = struct.pack("<I", 5) + later[4:]
        before = (made.checksums, (tmp_path / "gateway.zolog").read_bytes())
        for record, reason in (
            (first, "an old message: the record of step 0, where that of step 3 follows"),
            (bytes(damaged), "damaged or of another run"),
            (after, "the record of step 5, where those from step 3 on are missing"),
            (later[:-1], "a record of"),
        ):
            with pytest.raises(FleetError, match=reason):
                gateway.take(record)
        with Link(lambda: port) as link:
            link.hello()
            for record, status in ((bytes(damaged), 17), (after, 4), (later[:-1], 1), (first[:-1] + b"x", 17)):
                with pytest.raises(RefusedError) as refused:
                    link.fleet_records(record, size)
                assert refused.value.status == status
            # Known ones do nothing.
            assert link.fleet_records(first + last, size).step == 3
            assert link.fleet_state().step == 3
            with pytest.raises(RefusedError):
                link.fleet_evaluate(2, 7)
        assert before == (made.checksums, (tmp_path / "gateway.zolog").read_bytes())
        gateway.take(later)
        assert gateway.update()["a"].step == 4


def test_a_coefficient_out_of_range(tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 1) as made, made.gateway() as gateway:
        do_steps(made, gateway, 2)
        gateway.update()
        record = bytearray(made.server.decide([gateway.answer()]))
        record[16:20] = struct.pack("<i", 1 << 30)
        record[-4:] = struct.pack("<I", zlib.crc32(record[:-4], gateway.checksum))
        with pytest.raises(FleetError, match="damaged or of another run"):
            gateway.take(bytes(record))
        with Link(lambda: made.ports["a"]) as link:
            link.hello()
            with pytest.raises(RefusedError):
                link.fleet_records(bytes(record), len(record))
            assert link.fleet_state().step == 2


def test_no_device_answers(tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 2) as made, made.gateway(deadline=0.5) as gateway:
        for port in made.ports.values():
            port.is_asleep = True
        with pytest.raises(FleetError, match="step 0: no device has answered .a: no answer.*b: no answer"):
            gateway.answer()
        for port in made.ports.values():
            port.is_asleep = False
        with made.gateway() as other:
            assert other.answer().samples == 8


def test_a_sample_that_cannot_be_read(tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 2) as made, made.gateway() as gateway:
        made.ports["a"].device.samples.fail_at(3)
        assert gateway.answer().samples == 8  # a second attempt succeeds


# --- devices that are slow, looked at, or cut off within a write ------------------------------------------


@pytest.mark.slow
def test_a_straggler_is_left_out_and_gives_its_evaluation_up(tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 2) as made, made.gateway(deadline=1.5) as gateway:
        do_steps(made, gateway, 1)
        slow = made.ports["a"]
        slow.slices = 0
        for step in (1, 2):
            do_steps(made, gateway, 1)
            assert gateway.left_out == {"a": "it still evaluates the step after 2 s"} or step == 2
            assert slow.device.is_evaluating and slow.device.step == step
            slow.device.work()  # a query's perturbation is in force when the next record comes
        slow.slices = 9
        replica = made.replicas()[0]
        replica.take(made.server.records(0))
        gateway.answer()
        assert gateway.left_out == {} and slow.device.step == 3
        assert made.checksums == {replica.weights_checksum}


@pytest.mark.slow
@pytest.mark.parametrize("run", ["weight", "weight, segments", "weight, 16 bits"])
def test_a_device_that_is_asked_where_it_is_while_it_evaluates(run: str, tmp_path: Path) -> None:
    with fleet(tmp_path, run, 1) as made:
        port, replica = made.ports["a"], made.replicas()[0]
        port.slices = 0
        with Link(lambda: port) as link:
            link.hello()
            for step in range(3):
                checksum, weights = replica.checksum, replica.weights_checksum
                assert link.fleet_evaluate(step, checksum) is None
                slices = 0
                while port.device.is_evaluating:
                    state = link.fleet_state()
                    assert (state.step, state.weights, state.is_evaluating) == (step, weights, True)
                    assert port.device.evaluate()[0] == 0
                    port.device.work()
                    slices += 1
                assert slices > 3 and link.fleet_state().has_answer
                found, expected = link.fleet_evaluate(step, checksum), replica.answer()
                assert found is not None and [*found.differences] == expected.differences.tolist()
                record = made.server.decide([expected])
                replica.take(record)
                assert link.fleet_records(record, len(record)).weights == replica.weights_checksum


@pytest.mark.parametrize("unit", [1, 8])
def test_power_fails_within_each_write_of_a_record(unit: int, tmp_path: Path) -> None:
    with fleet(tmp_path, "weight", 1, unit=unit) as made, made.gateway() as gateway:
        do_steps(made, gateway, 2)
        gateway.update()
        port, records = made.ports["a"], made.server.records(0)
        size = gateway.record_bytes
        for first in (0, 1):  # with the header's write, and without
            for write in range(1, 5):
                for arrives in (0, 8, 16, 24, 200):
                    port.store.bytes[:] = 0xFF
                    port.boot()
                    with Link(lambda: port) as link:
                        link.hello()
                        if first:
                            link.fleet_records(records[:size], size)
                        port.store.fail_at(write, arrives)
                        try:
                            link.fleet_records(records, size)
                            failed = False
                        except RefusedError as error:
                            assert error.status == 18  # ZO_ERROR_STORE
                            failed = True
                            # Nothing that the state speaks of has changed by half.
                            state = link.fleet_state()
                            assert state.step < 2
                        port.store.fail_at(0)
                        port.boot()
                        assert port.device.step <= 2 and (failed or port.device.step == 2)
                        state = link.fleet_records(records, size)
                        assert (state.step, state.weights) == (2, made.server.weights_checksum)
