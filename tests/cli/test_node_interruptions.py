"""Node perturbation on the command line: interrupted, killed, resumed, replayed."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import files_of, initial_export, result_of, run
from helpers.moments import At, stop
from helpers.processes import start, wait_until
from tflm_zo.logs import Log
from tflm_zo.training import Settings, Trainer

STEPS, EVERY = 600, 50


def arguments(name: str, *more: Any) -> list[Any]:
    given = ("--steps", STEPS, "--set", f"snapshot-every={EVERY}", "--batch-size", 16, "--learning-rate", 1)
    return ["train", "p.tflite", "d.npz", "-o", f"{name}.tflite", "--held-out", 0, *given, *more]


def wait_for_steps(log: Path, steps: int) -> None:
    wait_until(lambda: log.exists() and len(Log.read(log).losses) >= steps)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_and_kill(folder: Path) -> None:
    """Runs with Ctrl-C, a kill, then to the end from the plain model: the bits of one run."""
    run(*arguments("whole"))
    log = folder / "cut.zolog"

    child = start(*arguments("cut"))
    wait_for_steps(log, EVERY + 10)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 130, stderr
    read = Log.read(log)
    done = len(read.losses)
    assert read.snapshot is not None and read.snapshot.step == done
    assert EVERY < done < STEPS
    assert "Traceback" not in stderr
    assert read.best is not None
    kept = read.best.step
    which = "this step" if kept == done else f"the best measured step, {kept}"
    assert stderr.splitlines()[-1] == (
        f"warning: interrupted: cut.zolog ends with the last complete step, {done}. cut.tflite has the weights of "
        f"{which}. To resume, repeat the command with --resume"
    )
    replayed = result_of("replay", "cut.zo.tflite", log, "-o", "part.tflite", "--batch", 1)
    assert (replayed["steps"], replayed["whole_steps"], replayed["steps_beyond"]) == (kept, done, 0)
    assert Path("part.tflite").read_bytes() == Path("cut.tflite").read_bytes()

    child = start(*arguments("cut", "--resume"))
    wait_for_steps(log, done + EVERY + 10)
    child.kill()
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    read = Log.read(log)
    assert read.snapshot is not None and done < read.snapshot.step <= len(read.losses) < STEPS

    result = result_of(*arguments("cut", "--resume"))
    assert result["steps"] == STEPS
    assert files_of("cut") == files_of("whole")
    # Of the whole run, not only of its rest: fc's share of small_cnn is a tenth.
    assert result["equivalents"] == pytest.approx(32 * 0.9 + STEPS * 16 * 0.2)


def test_replay_says_what_needs_the_data(folder: Path) -> None:
    options = ("--keep", "last", "--steps", 12, "--set", "snapshot-every=5", "--batch-size", 16)
    run("train", "p.tflite", "d.npz", "-o", "whole.tflite", *options)
    trainer = Trainer("whole.zo.tflite", Settings(batch_size=16, snapshot_every=5))
    with np.load("d.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    log = Path("api.zolog")
    copies = [  # as a kill after a step would leave it
        At(step - 1, lambda _, copy=copy: Path(copy).write_bytes(log.read_bytes()))
        for step, copy in ((8, "killed.zolog"), (3, "early.zolog"))
    ]
    trainer.fit(x, y, steps=12, log=log, callbacks=copies, keep="last")
    assert log.read_bytes() == Path("whole.zolog").read_bytes()

    replay = ("replay", "whole.zo.tflite", "killed.zolog", "-o", "b.tflite", "--batch", 1)
    done = run(*replay, "--json")
    result = json.loads(done.stdout)
    assert result == {
        "output": "b.tflite",
        "steps": 5,
        "whole_steps": 5,
        "steps_of_run": 12,
        "steps_beyond": 3,
        "torn_bytes": 0,
        "threshold": None,
    }
    assert done.stderr == (
        "warning: killed.zolog: 3 steps after its last snapshot (5) are not in the model: they need the "
        "data; train --resume repeats them\n"
    )
    five = Trainer("whole.zo.tflite", Settings(batch_size=16, snapshot_every=5))
    five.fit(x, y, steps=12, callbacks=[At(4, stop)], keep="last")
    assert Path("b.tflite").read_bytes() == five.export(batch=1).to_bytes()
    done = run(*replay, "--steps", 5, "--force")
    assert "after 5 of the run's 12 steps" in done.stdout and done.stderr == ""
    for steps in (4, 8, 12):
        done = run(*replay, "--steps", steps, "--force", code=1)
        assert f"must have a snapshot after step {steps}. It has snapshots after step 5." in done.stderr

    assert result_of(*replay[:2], "early.zolog", *replay[3:], "--force")["steps"] == 0
    assert Path("b.tflite").read_bytes() == initial_export("whole.zo.tflite")
    for name in ("killed", "early"):
        Path(f"{name}.zo.tflite").write_bytes(Path("whole.zo.tflite").read_bytes())
        run("train", "p.tflite", "d.npz", "-o", f"{name}.tflite", *options, "--resume")
        assert files_of(name) == files_of("whole")
