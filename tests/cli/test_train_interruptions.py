# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo train`` as a process that is interrupted, killed, or has no room left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflm_zo.converters import export_model, load_model
from typer.testing import CliRunner

from models import MODELS
from tflm_zo import inject
from tflm_zo.cli.app import app
from tflm_zo.seedlog import SeedLog
from tflm_zo.training import replay_log

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

HEADER, RECORD = 128, 24
RUN = "import sys; from tflm_zo.cli import main; sys.argv[0] = 'tflm-zo'; "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    inject(MODELS["small_cnn"](), batch=8).save(tmp_path / "m.zo.tflite")
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (32, 8, 8, 1)).astype(np.int8)
    np.savez(tmp_path / "d.npz", x=x, y=rng.integers(0, 4, 32))
    return tmp_path


def arguments(output: str, steps: int, *more: str) -> list[str]:
    run = ["train", "m.zo.tflite", "d.npz", "-o", output, "--steps", str(steps), "--batch-size", "16"]
    return [*run, "--runtime", "litert-ref", *more]


def command(*given: Any, before: str = "") -> list[str]:
    """The command line in a process of its own; `before`: Python that runs first."""
    return [sys.executable, "-c", f"{RUN}{before}main()", *arguments(*given)]


def finish(*given: Any) -> None:
    """The command, here, to its end."""
    done = CliRunner().invoke(app, arguments(*given))
    assert done.exit_code == 0, done.output


def start(folder: Path, *given: Any) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(*given), cwd=folder, text=True, **pipes)


def wait_for_steps(log: Path, steps: int) -> None:
    deadline = time.monotonic() + 60
    while not (log.exists() and log.stat().st_size >= HEADER + steps * RECORD):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def same(folder: Path, a: str, b: str) -> bool:
    return all(
        (folder / f"{a}{end}").read_bytes() == (folder / f"{b}{end}").read_bytes()
        for end in (".zolog", ".tflite")
    )


def test_ctrl_c(folder: Path) -> None:
    """Twice, then to the end: exit code 130, the last whole step on the disk, the bits of one go."""
    steps, fast = 6000, ("--runtime", "litert")
    finish("whole.tflite", steps, *fast)
    log, done = folder / "cut.zolog", 0
    for more in ((), ("--resume", "--json")):
        child = start(folder, "cut.tflite", steps, *fast, *more)
        wait_for_steps(log, done + 500)
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=60)
        assert child.returncode == 130, stderr
        read = SeedLog.read(log)
        assert read.torn_bytes == 0 and done < len(read.steps) < steps
        done = len(read.steps)
        assert "Traceback" not in stderr
        assert stderr.splitlines()[-1] == (
            f"warning: interrupted: cut.tflite and cut.zolog are those of the last whole step ({done}); "
            "the same command with --resume goes on"
        )
        weights, _ = replay_log(load_model(folder / "m.zo.tflite"), read)
        exported = export_model(folder / "m.zo.tflite", weights).to_bytes()
        assert (folder / "cut.tflite").read_bytes() == exported
    result = json.loads(stdout)
    assert (result["interrupted"], result["steps"]) == (True, done)
    finish("cut.tflite", steps, *fast, "--resume")
    assert same(folder, "cut", "whole")


@pytest.mark.parametrize("room", [100, HEADER + 37 * RECORD + 5, HEADER + 60 * RECORD])
def test_no_room_left(room: int, folder: Path) -> None:
    """The operating system refuses to let files grow: while the log is written, or, where that just fits,
    while the larger model is."""
    steps = 60
    finish("whole.tflite", steps)
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room})); "
    full = subprocess.run(
        command("cut.tflite", steps, before=limit), cwd=folder, capture_output=True, text=True, timeout=120
    )
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
def test_killed_at_20_moments(folder: Path) -> None:
    """SIGKILL at random moments of the process's life, start-up, training and export: no bit is lost.

    Four runs of five kills each, every one while --resume goes on from the last.
    """
    steps, rng = 12000, np.random.default_rng()
    begin = time.monotonic()
    child = start(folder, "whole.tflite", steps)
    wait_for_steps(folder / "whole.zolog", 1)
    start_up = time.monotonic() - begin
    child.communicate()
    assert child.returncode == 0
    training = time.monotonic() - begin - start_up
    whole = (folder / "whole.zolog").read_bytes()
    stages: list[str] = []
    for round_ in range(4):
        name = f"cut{round_}"
        log, model = folder / f"{name}.zolog", folder / f"{name}.tflite"
        for kill in range(5):
            before = log.read_bytes() if log.exists() else b""
            child = start(folder, f"{name}.tflite", steps, "--resume")
            if kill < 4:
                # A resumed run's training is shorter, and less than a third of it passes before a kill.
                earliest, latest = ((0, start_up), (start_up, start_up + training / 3))[kill % 2]
                time.sleep(float(rng.uniform(earliest, latest)))
            else:
                wait_for_steps(log, steps)
                time.sleep(float(rng.uniform(0, 0.01)))
            child.kill()
            child.communicate()
            assert child.returncode == -signal.SIGKILL
            written = log.read_bytes() if log.exists() else b""
            assert whole.startswith(written) and written.startswith(before)
            if model.exists():  # whole or not at all
                assert model.read_bytes() == (folder / "whole.tflite").read_bytes()
                stages.append("after export")
            elif len(written) == len(whole):
                stages.append("export")
            else:
                stages.append("training" if len(written) > max(HEADER, len(before)) else "start-up")
        finish(f"{name}.tflite", steps, "--resume")
        assert same(folder, name, "whole")
    print(len(stages), "kills:", {stage: stages.count(stage) for stage in sorted(set(stages))})
    assert len(stages) == 20
    assert {"start-up", "training", "export"} <= set(stages)
