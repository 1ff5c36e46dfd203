"""Runs are sent to a device, which switches over and goes back, over bad lines and without power."""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device.emulation import OK, Device, Store, needs_compiler
from device.runs import RUNS, STEPS, desktop, device, zo_model
from device.test_weights import run_from
from helpers.commands import invoke, result_of
from helpers.examples import slow_but
from link.board import board_on_line
from link.direct import DirectPort, HostKilledError
from logs.test_padding import padded
from tflm_zo.converters import export_model
from tflm_zo.core import THRESHOLD_STEP, Measurement, fnv1a
from tflm_zo.link import Link, LinkError, Load, PlaceKind, collect, deploy, load_of, revert
from tflm_zo.logs import LogError, keep_threshold, replay_log

pytestmark = needs_compiler

NAMES = ("weight", "node")
SEEDS = int(os.environ.get("TFLM_ZO_BAD_LINES", "6"))
#: Bytes that a store programs at once.
UNITS = slow_but((16,), (1, 4, 8, 16, 32))


def store_for(made: Device, unit: int = 1) -> Store:
    store = Store(size=1 << 15, unit=unit)
    store.c.tell = type(store.c.tell)()  # no journal
    assert made.init() == OK
    return store


def weight_bytes(name: str) -> int:
    return len(desktop(name).states[0].weights)


def connected(port: DirectPort) -> Link:
    link = Link(lambda: port, timeout=60)
    link.hello()
    return link


def train(made: Device, steps: int) -> None:
    while made.step < steps:
        assert made.train_step()[0] == OK


def weights_of(made: Device) -> bytes:
    status, found = made.export_weights()
    assert status == OK
    return found


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(name: str, unit: int) -> None:
    made, wanted = device(name, 2), desktop(name, 2)
    store = store_for(made, unit)
    port = DirectPort(made, store, places=True, until=0)
    given = wanted.states[-1].weights
    train(made, 3)
    with connected(port) as link:
        with pytest.raises(LinkError, match="no previous run"):
            revert(link, link.hello())
        load = Load(PlaceKind.WEIGHTS, given)
        done = deploy(link, link.hello(), load)
        assert (done.place, done.sent, done.changed) == (2, len(given), True)
        # A new run, which begins with the sent weights.
        assert (made.step, weights_of(made)) == (0, given)
        again = deploy(link, link.hello(), load)
        assert (again.place, again.sent, again.changed) == (2, 0, False)
        train(made, 4)
        learned = weights_of(made)
        assert learned == run_from(name, given).states[4].weights
        # Back to the run before, log included, at the step that it had.
        assert revert(link, link.hello()).place == 1
        at = made.step
        assert at == (3 if name == "weight" else 2)  # a snapshot every other step
        assert weights_of(made) == wanted.states[at].weights
        train(made, STEPS)
        assert weights_of(made) == wanted.states[-1].weights
        # And back to the sent ones, with all training since.
        assert revert(link, link.hello()).place == 2
        assert (made.step, weights_of(made)) == (4, learned)
        hello = link.hello()
        assert [p.kind for p in hello.places] == [PlaceKind.OWN, PlaceKind.WEIGHTS]
        assert hello.places[1].checksum == fnv1a(given) and hello.weight_bytes == len(given)
        assert hello.unit == unit and hello.log_at % unit == 0 <= hello.log_at - len(given) < unit


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", NAMES)
def test_a_log_is_gone_on_with(name: str, unit: int, tmp_path: Path) -> None:
    made, wanted, path = device(name), desktop(name), tmp_path / "run.zolog"
    cut = len(wanted.log) - (wanted.log[12] if name == "weight" else 0)  # a record
    path.write_bytes(wanted.log[:cut])
    port = DirectPort(made, store_for(made, unit), places=True, until=0)
    with connected(port) as link:
        hello = link.hello()
        if name == "node":
            load = Load(PlaceKind.LOG, path.read_bytes())
        else:
            load = load_of(path, link, hello, None)
            assert load.kind == PlaceKind.LOG and load.data == wanted.log[:cut]
            # So it is if the file is a dump of another device's memory.
            path.write_bytes(padded(wanted.log[:cut], 16) + b"torn")
            assert load_of(path, link, hello, None) == load
            keep_threshold(path, Measurement(THRESHOLD_STEP, 7, 3, 9900, 1))  # what is behind the steps goes along
            assert load_of(path, link, hello, None).data == path.read_bytes()
            path.write_bytes(wanted.log[:cut])
        deploy(link, hello, load)
        assert made.step == (STEPS - 1 if name == "weight" else STEPS)
        assert weights_of(made) == wanted.states[made.step].weights
        train(made, STEPS)
        collect(link, tmp_path / "whole.zolog")
        assert (tmp_path / "whole.zolog").read_bytes() == wanted.log


def test_logs_of_one_length_are_told_apart() -> None:
    """Their records end with checksums, after which a CRC-32 of the whole is the same."""
    made, port_of = device("weight"), lambda: DirectPort(made, store_for(made), places=True, until=0)
    first, second = desktop("weight", 1).log, desktop("weight", 2).log
    assert len(first) == len(second) and first != second
    with connected(port_of()) as link:
        for log, seed in ((first, 1), (second, 2), (first, 1)):
            assert deploy(link, link.hello(), Load(PlaceKind.LOG, log)).changed
            assert weights_of(made) == desktop("weight", seed).states[-1].weights


def test_what_a_device_does_not_take(tmp_path: Path) -> None:
    made, wanted = device("weight"), desktop("weight")
    port = DirectPort(made, store_for(made), places=True, until=0)
    train(made, 2)
    before = weights_of(made)
    wrong = bytearray(wanted.states[0].weights)
    wrong[30] = 0x80
    other = desktop("weight, segments").log
    shorter = bytearray(wanted.log)
    with connected(port) as link:
        cases: list[tuple[Load, str]] = [
            (Load(PlaceKind.WEIGHTS, bytes(wrong)), "beyond the range"),
            (Load(PlaceKind.WEIGHTS, bytes(wrong[:-1])), "trains weights of"),
            (Load(PlaceKind.LOG, other), "other settings"),
            (Load(PlaceKind.LOG, bytes(20_000)), "room for"),
        ]
        for load, said in cases:
            with pytest.raises(LinkError, match=said):
                deploy(link, link.hello(), load)
            assert (made.step, weights_of(made)) == (2, before), said
            assert link.hello().active == 1
        (tmp_path / "other.zolog").write_bytes(other)
        with pytest.raises(LogError, match="another model"):
            load_of(tmp_path / "other.zolog", link, link.hello(), None)
        shorter[200] ^= 1
        (tmp_path / "damaged.zolog").write_bytes(shorter)
        assert load_of(tmp_path / "damaged.zolog", link, link.hello(), None).data == wanted.log[: 132 + 28 * 2]
        (tmp_path / "text").write_bytes(b"hello")
        with pytest.raises(ValueError, match="no log, no model"):
            load_of(tmp_path / "text", link, link.hello(), None)
    plain = DirectPort(made, Store(), until=0)
    with connected(plain) as link:
        for attempt in (lambda: deploy(link, link.hello(), cases[0][0]), lambda: revert(link, link.hello())):
            with pytest.raises(LinkError, match="no places"):
                attempt()


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_files(name: str, tmp_path: Path) -> None:
    """Compares a log, a trained model and an export: the same weights, but for fractions of the latter."""
    model, wanted = zo_model(name), desktop(name)
    zo, log, plain, raw = (tmp_path / n for n in ("m.zo.tflite", "r.zolog", "t.tflite", "w.bin"))
    zo.write_bytes(model.to_bytes())
    log.write_bytes(wanted.log)
    raw.write_bytes(wanted.states[-1].weights)
    weights, fractions = replay_log(model, log)
    plain.write_bytes(export_model(model, weights).to_bytes())
    made = device(name)
    with connected(DirectPort(made, store_for(made), places=True, until=0)) as link:
        hello = link.hello()
        assert load_of(log, link, hello, zo).data == wanted.states[-1].weights
        assert load_of(raw, link, hello, None).data == wanted.states[-1].weights
        found = load_of(plain, link, hello, zo).data
        size = sum(w.nbytes for w in weights.values())
        assert found[:size] == wanted.states[-1].weights[:size] and not any(found[size:])
        assert bool(fractions) == (size < len(found))
        plain.write_bytes(export_model(model, weights, re_range=True).to_bytes())
        with pytest.raises(ValueError, match="same scales"):
            load_of(plain, link, hello, zo)
        with pytest.raises(ValueError, match="--model"):
            load_of(plain, link, hello, None)
        other = zo_model("residual, every layer").to_bytes()
        zo.write_bytes(other)
        with pytest.raises(LinkError, match="another model"):
            load_of(log, link, hello, zo)


def attempt(port: DirectPort, host: random.Random, action: Callable[[Link], Any], *, kills: list[int]) -> None:
    for _ in range(1000):
        port.writes_left = host.randrange(3, 40) if host.randrange(3) else -1
        try:
            with Link(lambda: port, timeout=60) as link:
                action(link)
            port.writes_left = -1
            return
        except HostKilledError:
            kills[0] += 1
        except LinkError as error:
            # Power has failed while the device wrote: it answers with the store's failure, or begins anew.
            assert "store" in str(error) or "could not keep" in str(error), error
    raise AssertionError("it never succeeds")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", NAMES)
def test_bad_lines_and_power_cuts_leave_one_of_two_runs(name: str, unit: int, no_waiting: None) -> None:
    made, wanted, totals = device(name), desktop(name), {"damaged": 0, "power cuts": 0}
    kills, states = [0], [s.weights for s in wanted.states]
    for seed in range(SEEDS):
        host, rng = random.Random(seed), np.random.default_rng(seed)
        given = np.frombuffer(states[-1], np.int8).copy()
        given[: weight_bytes(name) // 4] = rng.integers(-100, 100, weight_bytes(name) // 4)
        load = Load(PlaceKind.WEIGHTS, given.tobytes())
        port = DirectPort(
            made,
            store_for(made, unit),
            places=True,
            share=(0.0, 0.004, 0.01)[seed % 3],
            seed=seed,
            cuts=(0, 12)[seed % 2],
            until=0,
            buffer_bytes=host.choice((80, 128, 256)),
        )
        seen: set[bytes] = set()
        own_boot = port.boot

        def boot(own: Any = own_boot, seen: set[bytes] = seen) -> None:
            own()
            seen.add(weights_of(made))

        port.boot = boot  # type: ignore[method-assign]
        train(made, 2)

        def send(link: Link, load: Load = load) -> None:
            deploy(link, link.hello(), load)

        attempt(port, host, send, kills=kills)
        assert (made.step, weights_of(made)) == (0, load.data)
        assert seen <= {states[2], load.data}
        port.calm()
        train(made, 2)
        learned = weights_of(made)
        seen.clear()

        def back(link: Link) -> None:
            hello = link.hello()
            if hello.active != 1:
                revert(link, hello)

        attempt(port, host, back, kills=kills)
        assert (made.step, weights_of(made)) == (2, states[2])
        assert seen <= {states[2], learned}
        port.calm()
        train(made, STEPS)
        assert weights_of(made) == states[-1]
        totals["damaged"] += port.damage.count
        totals["power cuts"] += port.reboots
    print(name, unit, SEEDS, totals, kills)
    assert totals["damaged"] > 3 * SEEDS and totals["power cuts"] > SEEDS / 6 and kills[0] > SEEDS / 4


@pytest.mark.slow
def test_every_run_takes_what_it_has_exported() -> None:
    for name in RUNS:
        if name in NAMES or "alone" in name:
            continue
        made, given = device(name), desktop(name).states[-1].weights
        port = DirectPort(made, store_for(made), places=True, until=0)
        with connected(port) as link:
            assert link.hello().weight_bytes == len(given), name
            deploy(link, link.hello(), Load(PlaceKind.WEIGHTS, given))
            assert weights_of(made) == given


# --- processes ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1, pytest.param(16, marks=pytest.mark.slow)])
def test_the_command_and_a_device_that_are_killed(unit: int, tmp_path: Path) -> None:
    zo, log = tmp_path / "m.zo.tflite", tmp_path / "r.zolog"
    zo.write_bytes(zo_model("node").to_bytes())
    log.write_bytes(desktop("node").log)
    options = ("--places", "--until", 2, "--steps", STEPS, "--unit", unit)
    with board_on_line(tmp_path, "node", *options, share=0.004) as (made, line):
        words = [sys.executable, "-c", "from tflm_zo.cli import main; main()", "deploy", line.url, log]
        host = subprocess.Popen([str(w) for w in (*words, "--model", zo)], stdout=subprocess.DEVNULL)
        time.sleep(1.2)
        host.kill()
        host.wait()
        made.cut_power()
        made.begin()
        found = result_of("deploy", line.url, log, "--model", zo)
        assert found["place"] == 2 and found["kind"] == "weights" and found["bytes"] == weight_bytes("node")
        made.cut_power()
        made.begin()
        again = result_of("deploy", line.url, log, "--model", zo)
        assert (again["changed"], again["bytes_sent"]) == (False, 0)
        done = invoke("deploy", line.url, "--revert")
        assert done.exit_code == 0 and "the run before, in place 1" in done.stdout
        assert result_of("deploy", line.url, "--revert")["place"] == 2
    done = invoke("deploy", line.url)
    assert done.exit_code == 2
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "flash.bin").unlink()
