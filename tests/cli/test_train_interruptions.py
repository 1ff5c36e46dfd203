"""``tflm-zo train`` as a process that is interrupted, killed, or has no room left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import invoke, run
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.processes import command, start, wait_until
from tflm_zo.converters import export_model, load_model
from tflm_zo.io.files import NewFile
from tflm_zo.logs import Log, replay_log

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

HEADER, RECORD = 132, 24


@pytest.fixture
def folder(zo_folder: Path) -> Path:
    return zo_folder


def use_nodes(folder: Path) -> int:
    """Makes the model one for node perturbation; returns how many steps take some seconds."""
    inject_all(MODELS["small_cnn"](), nodes="fc", batch=8).save(folder / "m.zo.tflite", force=True)
    return 400


def arguments(output: str, steps: int, *more: str) -> list[Any]:
    run = ["train", "m.zo.tflite", "d.npz", "-o", output, "--steps", steps, "--batch-size", 16]
    return [*map(str, run), "--keep", "last", "--runtime", "litert", *more]


def finish(*given: Any) -> None:
    run(*arguments(*given))


def wait_for_size(log: Path, size: int) -> None:
    wait_until(lambda: log.exists() and log.stat().st_size >= size)


def wait_for_steps(log: Path, steps: int) -> None:
    wait_for_size(log, HEADER + steps * RECORD)


def same(folder: Path, a: str, b: str) -> bool:
    return all(
        (folder / f"{a}{end}").read_bytes() == (folder / f"{b}{end}").read_bytes() for end in (".zolog", ".tflite")
    )


@pytest.mark.parametrize(
    "ending", slow_but([signal.SIGINT], [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]), ids=lambda s: s.name
)
def test_ctrl_c(ending: signal.Signals, folder: Path) -> None:
    """Interrupts twice, then runs to the end: the last complete step is on the disk, the bits are those of one run."""
    steps, fast = 1200, ("--runtime", "litert")
    finish("whole.tflite", steps, *fast)
    log, done = folder / "cut.zolog", 0
    for more in ((), ("--resume", "--json")):
        child = start(*arguments("cut.tflite", steps, *fast, *more), folder=folder)
        wait_for_steps(log, done + 200)
        child.send_signal(ending)
        stdout, stderr = child.communicate(timeout=60)
        assert child.returncode == 128 + ending, stderr
        read = Log.read(log)
        assert read.torn_bytes == 0 and done < len(read.steps) < steps
        done = len(read.steps)
        assert "Traceback" not in stderr
        assert stderr.splitlines()[-1] == (
            f"warning: interrupted: cut.zolog ends with the last complete step, {done}. cut.tflite has the weights of "
            "this step. To resume, repeat the command with --resume"
        )
        weights, _ = replay_log(load_model(folder / "m.zo.tflite"), read)
        exported = export_model(folder / "m.zo.tflite", weights).to_bytes()
        assert (folder / "cut.tflite").read_bytes() == exported
    result = json.loads(stdout)
    assert (result["interrupted"], result["steps"]) == (True, done)
    finish("cut.tflite", steps, *fast, "--resume")
    assert same(folder, "cut", "whole")


def test_ended_while_the_model_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish("whole.tflite", 20)
    real = NewFile.publish

    def publish(new: NewFile, **more: Any) -> None:
        if new._path.suffix == ".tflite":
            os.kill(os.getpid(), signal.SIGTERM)
        real(new, **more)

    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(NewFile, "publish", publish)
        done = invoke(*arguments("cut.tflite", 20))
    assert done.exit_code == 143
    assert done.stderr.splitlines()[-1] == (
        "interrupted: cut.tflite is not written; nothing is lost: "
        "tflm-zo replay makes the model of m.zo.tflite and cut.zolog"
    )
    assert signal.getsignal(signal.SIGTERM) == before
    assert not (folder / "cut.tflite").exists() and not list(folder.glob(".*"))
    finish("cut.tflite", 20, "--resume")
    assert same(folder, "cut", "whole")


@pytest.mark.slow
def test_nohup(folder: Path) -> None:
    """Ignores a signal that the program was started to ignore."""
    ignore = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    given = command(*arguments("cut.tflite", 3000, "--runtime", "litert"), before=ignore)
    child = subprocess.Popen(given, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_steps(folder / "cut.zolog", 300)
    child.send_signal(signal.SIGHUP)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 0, stderr
    assert len(Log.read(folder / "cut.zolog").steps) == 3000


@pytest.mark.parametrize("more", slow_but([("--resume",)], [("--resume",), ("--force",)]))
@pytest.mark.parametrize("kind", slow_but(["weight"], ["weight", "node"]))
def test_two_runs_of_one_log(kind: str, more: tuple[str, ...], folder: Path) -> None:
    steps = 200
    if kind == "node":
        use_nodes(folder)
    finish("whole.tflite", steps)
    child = start(*arguments("cut.tflite", steps), folder=folder)
    wait_for_steps(folder / "cut.zolog", 20)
    child.send_signal(signal.SIGSTOP)
    names = sorted(path.name for path in folder.iterdir())
    done = invoke(*arguments("cut.tflite", steps, *more))
    assert child.poll() is None, "the first run was over too soon"
    child.send_signal(signal.SIGCONT)
    assert sorted(path.name for path in folder.iterdir()) == names
    assert done.exit_code == 1
    assert done.stderr == ("error: cut.zolog: another run is writing it; wait for its end or choose another name\n")
    child.communicate(timeout=60)
    assert child.returncode == 0 and same(folder, "cut", "whole")
    finish("cut.tflite", steps, *more)


@pytest.mark.parametrize(
    "room",
    slow_but([HEADER + 5, HEADER + 37 * RECORD + 5], [100, HEADER + 5, HEADER + 37 * RECORD + 5, HEADER + 60 * RECORD]),
)
def test_no_room_left(room: int, folder: Path) -> None:
    """Limits files by the operating system: within the header, the log, or the larger model."""
    steps = 60
    finish("whole.tflite", steps)
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room})); "
    given = command(*arguments("cut.tflite", steps), before=limit)
    full = subprocess.run(given, cwd=folder, capture_output=True, text=True, timeout=120)
    assert full.returncode == 1
    last = full.stderr.splitlines()[-1]
    assert "Traceback" not in full.stderr and last.startswith("error: cut.") and "File too large" in last
    assert not (folder / "cut.tflite").exists() and not list(folder.glob(".*"))
    if room < HEADER:
        assert not (folder / "cut.zolog").exists()
    else:
        written = (folder / "cut.zolog").read_bytes()
        assert len(written) == HEADER + (room - HEADER) // RECORD * RECORD
        assert (folder / "whole.zolog").read_bytes().startswith(written)
    finish("cut.tflite", steps, "--resume")
    assert same(folder, "cut", "whole")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["weight", "node"])
def test_killed_at_random_moments(kind: str, folder: Path) -> None:
    """Sends SIGKILL at start-up, in training and export, five times a run: no bit is lost, no file left.

    TFLM_ZO_KILLS: how many kills there are in all, of each kind (default: 20).
    """
    steps, rng = 12000, np.random.default_rng()
    if kind == "node":
        steps = 4 * use_nodes(folder)
    rounds = -(-int(os.environ.get("TFLM_ZO_KILLS", "20")) // 5)
    begin = time.monotonic()
    child = start(*arguments("whole.tflite", steps), folder=folder)
    wait_for_steps(folder / "whole.zolog", 1)
    start_up = time.monotonic() - begin
    child.communicate()
    assert child.returncode == 0
    whole = (folder / "whole.zolog").read_bytes()
    stages: list[str] = []
    for round_ in range(rounds):
        name = f"cut{round_}"
        log, model = folder / f"{name}.zolog", folder / f"{name}.tflite"
        for kill in range(5):
            before = log.read_bytes() if log.exists() else b""
            child = start(*arguments(f"{name}.tflite", steps, "--resume"), folder=folder)
            if kill == 4:
                wait_for_size(log, len(whole))
                time.sleep(float(rng.uniform(0, 0.01)))
            elif kill % 2:  # in training: as far as its log is, however fast the machine is now
                wait_for_size(log, len(before) + int(rng.uniform(0, (len(whole) - len(before)) / 3)))
            else:
                time.sleep(float(rng.uniform(0, start_up)))
            child.kill()
            child.communicate()
            assert child.returncode == -signal.SIGKILL
            # Remains of a file after a kill are removed with the next file of its name.
            assert all(p.match(f".{name}.*.part") for p in folder.glob(".*"))
            written = log.read_bytes() if log.exists() else b""
            if kind == "weight":
                assert whole.startswith(written) and written.startswith(before)
            elif written:
                losses = Log.read(log).losses.tolist()
                assert losses == Log.read(folder / "whole.zolog").losses[: len(losses)].tolist()
            if model.exists():  # whole or not at all
                assert model.read_bytes() == (folder / "whole.tflite").read_bytes()
                stages.append("after export")
            elif len(written) == len(whole):
                stages.append("export")
            else:
                stages.append("training" if len(written) > max(HEADER, len(before)) else "start-up")
        finish(f"{name}.tflite", steps, "--resume")
        assert same(folder, name, "whole")
        for path in (log, model):
            path.unlink()
    left = {path.name for path in folder.iterdir()}
    assert left == {"d.npz", "m.zo.tflite", "p.tflite", "whole.tflite", "whole.zolog"}
    print(len(stages), "kills:", {stage: stages.count(stage) for stage in sorted(set(stages))})
    assert len(stages) == 5 * rounds
    assert {"start-up", "training", "export"} <= set(stages)
