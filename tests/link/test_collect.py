"""The log comes home over lines that lose, double and change bytes, while device and host come and go."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from device.emulation import OK, Device, Samples, Store, needs_compiler
from device.runs import STEPS, desktop, device, yardstick
from helpers.commands import invoke, result_of
from helpers.examples import slow_but
from link.board import board, board_on_line
from link.direct import CLOCK, DirectPort, HostKilledError
from logs.test_padding import padded
from tflm_zo.core import THRESHOLD_STEP, Measurement
from tflm_zo.link import Link, LinkError, collect
from tflm_zo.logs import Log, keep_threshold
from tflm_zo.logs.layout import unpadded

pytestmark = needs_compiler

#: Kinds of logs; slots that change with every step, and with every other one.
RUNS = slow_but(("weight", "node"), ("weight", "node", "exact head"))
SEEDS = int(os.environ.get("TFLM_ZO_BAD_LINES", "8"))
#: Bytes that a store programs at once.
UNITS = slow_but((16,), (1, 4, 8, 16, 32))


def content(store: Store, count: int) -> bytes:
    """Returns the first bytes of the log in a store, without its padding."""
    return unpadded(store.content(len(store.bytes)))[:count]


def follow(port: DirectPort, path: Path, host: random.Random) -> int:
    for killed in range(1000):
        port.writes_left = host.randrange(10, 60) if host.randrange(4) else -1
        try:
            with Link(lambda: port, timeout=20) as link:
                link.hello()
                collect(link, path, follow=True)
            return killed
        except HostKilledError:
            # A partial file is a valid log of the device's run, up to some step.
            if path.exists():
                whole(path)
    raise AssertionError("it never ends")


def test_what_has_come_while_the_host_slept_is_not_asked_for_again(no_waiting: None) -> None:
    port = DirectPort(device("weight"), Store())
    write, asked = port.write, []

    def write_and_sleep(data: bytes) -> int:
        asked.append(data)
        write(data)
        CLOCK.sleep(60.0)
        return len(data)

    port.write = write_and_sleep  # type: ignore[method-assign, assignment]
    with Link(lambda: port, timeout=2) as link:
        link.hello()
        assert (len(asked), link.repeated) == (1, 0)


def whole(path: Path) -> int:
    return len(Log.read(path).losses)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", RUNS)
def test_every_bad_line_ends_with_the_devices_log(name: str, unit: int, tmp_path: Path, no_waiting: None) -> None:
    made, totals = device(name), {"damaged": 0, "power cuts": 0, "kills": 0, "repeated": 0}
    for seed in range(SEEDS):
        host, path = random.Random(seed), tmp_path / f"{seed}.zolog"
        store = Store(size=1 << 13, unit=unit)
        store.c.tell = type(store.c.tell)()  # no journal
        share = (0.0, 0.002, 0.006, 0.012)[seed % 4]
        port = DirectPort(
            made,
            store,
            share=share,
            seed=seed,
            cuts=(0, 9)[seed % 2],
            until=STEPS,
            buffer_bytes=host.choice((80, 128, 256)),
        )
        totals["kills"] += follow(port, path, host)
        assert path.read_bytes() == desktop(name).log == content(store, len(desktop(name).log))
        assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")] == []
        assert bool(port.damage.count) == bool(share)
        totals["damaged"] += port.damage.count
        totals["power cuts"] += port.reboots
    print(name, unit, SEEDS, totals)
    assert totals["damaged"] > 10 * SEEDS and totals["kills"] > SEEDS / 4
    assert totals["power cuts"] > SEEDS / 8


@pytest.fixture
def quiet() -> Any:
    def brought(made: Device, store: Store, path: Path, *, steps: int, **options: Any) -> Link:
        port = DirectPort(made, store, until=0)
        while made.step < steps:
            assert made.train_step()[0] == OK
        with Link(lambda: port) as link:
            link.hello()
            collect(link, path, **options)
        return link

    return brought


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", RUNS)
def test_a_file_is_gone_on_with(name: str, unit: int, tmp_path: Path, quiet: Any) -> None:
    made, store, path = device(name), Store(unit=unit), tmp_path / "run.zolog"
    sent: list[int] = []
    for steps in (2, 3, 3, STEPS):
        quiet(made, store, path, steps=steps)
        assert whole(path) == steps
        data = path.read_bytes()
        assert content(store, len(data)) == data
        sent.append(len(data))
    assert data == desktop(name).log
    # A file that is padded itself, as a dump of the memory is, is resumed, too.
    path.write_bytes(store.content(len(padded(data, unit)) - unit))
    quiet(made, store, path, steps=STEPS)
    assert path.read_bytes() == data

    # A run that was begun anew has fewer steps, and does not take the place of more.
    other = Store(unit=unit)
    assert made.init() == OK
    with pytest.raises(LinkError, match="begun anew"):
        quiet(made, other, path, steps=2)
    assert path.read_bytes() == data
    assert made.init() == OK
    quiet(made, other, path, steps=2, force=True)
    assert whole(path) == 2
    # Nor does one of another run.
    (tmp_path / "other.zolog").write_bytes(desktop("weight" if name == "node" else "node").log)
    with pytest.raises(FileExistsError, match="is not the log of the device's run"):
        quiet(made, other, tmp_path / "other.zolog", steps=2)


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_file_has_is_not_sent_again(unit: int, tmp_path: Path, quiet: Any, monkeypatch: Any) -> None:
    made, store, path = device("node"), Store(unit=unit), tmp_path / "run.zolog"
    quiet(made, store, path, steps=STEPS)
    bytes_read: list[int] = []
    own = Link.read

    def read(link: Link, store: int, offset: int, count: int) -> bytes:
        bytes_read.append(count)
        return own(link, store, offset, count)

    monkeypatch.setattr(Link, "read", read)
    quiet(made, store, path, steps=STEPS)
    assert sum(bytes_read) < 400 < len(desktop("node").log)
    # Damage of the file is found, and mended.
    data = bytearray(path.read_bytes())
    data[600] ^= 1
    path.write_bytes(data)
    quiet(made, store, path, steps=STEPS)
    assert path.read_bytes() == desktop("node").log


@pytest.mark.parametrize("unit", UNITS)
def test_a_run_that_measures_itself(unit: int, tmp_path: Path) -> None:
    for name in ("weight", "node"):
        made, store, path = device(name), Store(unit=unit), tmp_path / f"{name}.zolog"
        made.set_log(store)
        assert made.keep_best(Samples(yardstick()), 2) == OK
        while made.step < STEPS:
            assert made.train_step()[0] == OK
        made.set_log(None)
        expected = desktop(name, 1, 2).log
        assert content(store, len(expected)) == expected
        boot = DirectPort(made, store, until=0)  # ImportLog refuses it, and it stays
        with Link(lambda at=boot: at) as link:
            link.hello()
            collect(link, path)
        assert path.read_bytes() == expected


def test_there_is_no_log(tmp_path: Path, quiet: Any) -> None:
    with pytest.raises(LinkError, match="no log"):
        quiet(device("node"), Store(), tmp_path / "run.zolog", steps=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unit", UNITS)
def test_a_store_that_ends_where_its_log_does(unit: int, tmp_path: Path, quiet: Any) -> None:
    for name in ("weight", "node"):
        wanted = desktop(name).log
        stored = padded(wanted, unit) if unit > 1 else wanted
        store = Store(size=len(stored), content=stored, unit=unit)
        quiet(device(name), store, tmp_path / f"{name}.zolog", steps=0)
        assert (tmp_path / f"{name}.zolog").read_bytes() == wanted


@pytest.mark.parametrize("name", ["weight", "node"])
def test_a_read_of_the_devices_store_that_fails_is_no_end_of_the_log(
    name: str, tmp_path: Path, no_waiting: None
) -> None:
    made, path, wanted = device(name), tmp_path / "run.zolog", desktop(name).log
    port = DirectPort(made, Store(content=wanted), until=0, buffer_bytes=80)
    failed = 0
    while not path.exists():
        failed += 1
        port.fail_read_at(failed)
        with Link(lambda: port, timeout=2) as link:
            link.hello()
            try:
                collect(link, path)
            except LinkError as error:
                assert "written or read" in str(error)
                assert not path.exists()
        (tmp_path / "run.zolog.part").unlink(missing_ok=True)
    assert failed > 5 and path.read_bytes() == wanted


# --- processes that are killed ------------------------------------------------------------------------


def command(url: str, path: Path, *options: Any) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", "from tflm_zo.cli import main; main()", "collect", url, "-o", path, *options]
    return subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "unit"), [("weight", 8), ("node", 1)])
def test_processes_on_both_ends_are_killed(name: str, unit: int, tmp_path: Path) -> None:
    path = tmp_path / "run.zolog"
    options = ("--pace", 0.03, "--steps", 60, "--unit", unit)
    with board_on_line(tmp_path, name, *options, share=0.003) as (made, line):
        for seconds in (1.0, 1.5):
            host = command(line.url, path, "--follow")
            time.sleep(seconds)
            host.kill()
            host.communicate()
            if path.exists():
                assert whole(path) > 0
            made.cut_power()
            made.begin()
        done = command(line.url, path, "--follow", "--json")
        said, errors = done.communicate(timeout=60)
        assert done.returncode == 0, errors
        assert '"steps": 60' in said and line.damaged > 3
        data = path.read_bytes()
        assert whole(path) == 60 and unpadded(made.flash)[: len(data)] == data
    assert sorted(p.name for p in tmp_path.iterdir()) == ["flash.bin", "run.zolog"]


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "run.zolog"
    with board(tmp_path, "weight", "--steps", 5) as made:
        port = f"socket://127.0.0.1:{made.port}"
        found = result_of("collect", port, "-o", path, "--follow")
        assert (found["steps"], found["steps_of_run"], found["log"]) == (5, 5, "seed")
        done = invoke("collect", port, "-o", path)
        assert done.exit_code == 0 and f"{path.name}: 5 of the run's 5 steps" in done.stdout
        (tmp_path / "other.tflite").write_bytes(b"another")
        done = invoke("collect", port, "-o", path, "--model", tmp_path / "other.tflite")
        assert done.exit_code == 1 and "another model" in done.stderr
    done = invoke("collect", port, "-o", path, "--timeout", 0.5)
    assert done.exit_code == 1 and done.stderr.startswith("error: ")


@pytest.mark.parametrize("unit", UNITS)
def test_a_threshold_comes_with_its_log(unit: int, tmp_path: Path, quiet: Any) -> None:
    for name in ("weight", "node"):
        path = tmp_path / f"{name}.zolog"
        path.write_bytes(desktop(name).log)
        keep_threshold(path, Measurement(THRESHOLD_STEP, 9, 1234, 9900, 5))
        wanted = path.read_bytes()
        stored = padded(wanted, unit) if unit > 1 else wanted
        for size in (len(stored), len(stored) + 999):
            path.unlink()
            quiet(device(name), Store(size=size, content=stored, unit=unit), path, steps=0)
            assert path.read_bytes() == wanted
