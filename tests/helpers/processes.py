"""Commands as processes of their own, which tests interrupt."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tflm_zo.converters import Model
from tflm_zo.training import Settings, Trainer

RUN = "import sys; from tflm_zo.cli import main; sys.argv[0] = 'tflm-zo'; "


def command(*arguments: Any, before: str = "") -> list[str]:
    """Returns ``tflm-zo ARGUMENTS``; `before`: Python that runs first."""
    return [sys.executable, "-c", f"{RUN}{before}main()", *map(str, arguments)]


def start(*arguments: Any, folder: Path | None = None, **more: Any) -> subprocess.Popen[str]:
    """Starts ``tflm-zo ARGUMENTS``; `more`: of `subprocess.Popen`."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*arguments), cwd=folder, text=True, stdout=pipe, stderr=pipe, preexec_fn=_not_ignored, **more
    )


class Ended(NamedTuple):
    """How a process ended (negative: by a signal), and its standard error."""

    returncode: int | None
    stderr: str


def run(*arguments: Any) -> Ended:
    """Runs ``tflm-zo ARGUMENTS`` in a process of its own, forked off one that has imported the package already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tflm_zo.cli"])
    with tempfile.NamedTemporaryFile("r") as errors:
        process = context.Process(target=_run, args=([str(a) for a in arguments], errors.name))
        process.start()
        process.join(120)
        assert process.exitcode is not None, "it does not end"
        return Ended(process.exitcode, errors.read())


def _run(arguments: list[str], errors: str) -> None:
    from tflm_zo.cli import main

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY), 2)
    sys.argv = ["tflm-zo", *arguments]
    main()


def wait_until(reached: Callable[[], bool], seconds: int = 300) -> None:
    """Waits for a process to reach a condition."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _not_ignored() -> None:
    """Restores SIGINT and SIGHUP. Shells ignore SIGINT in background processes, and nohup ignores SIGHUP."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)


CHILD = """
import pickle
import sys
from tflm_zo.training import Trainer
folder, resume = sys.argv[1], sys.argv[2] == "resume"
settings, x, y, steps = pickle.load(open(folder + "/run.pickle", "rb"))
trainer = Trainer(folder + "/model.tflite", settings)
trainer.fit(x, y, steps=steps, log=folder + "/log", resume=resume, keep="last")
trainer.export().save(folder + "/final.tflite")
"""


def kill_and_resume(
    folder: Path,
    model: Model,
    settings: Settings,
    data: tuple[Any, Any],
    *,
    kills: int,
    steps: int,
    header: int,
    record: int,
) -> int:
    """Checks log and model of a run that is killed at random moments. Returns how often it was killed."""
    model.save(folder / "model.tflite")
    (folder / "run.pickle").write_bytes(pickle.dumps((settings, *data, steps)))
    # A log with snapshots is cut back to the last one as its run is resumed.
    every = settings.steps_between_snapshots if settings.is_layerwise else 1
    rng, log = np.random.default_rng(kills), folder / "log"
    marks = sorted(int(v) for v in rng.integers(1, steps, kills))
    killed = before = 0
    for i, mark in enumerate([*marks, None]):
        command = [sys.executable, "-c", CHILD, str(folder), "resume" if i else "new"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if mark is None:
            assert child.wait(timeout=240) == 0
            break
        lowest = max(mark // every * every + 1 + int(rng.integers(every)), before + 1)
        deadline = time.monotonic() + 120
        while not (log.exists() and log.stat().st_size >= header + record * min(lowest, steps)):
            if child.poll() is not None:
                assert log.stat().st_size == header + record * steps, "the child failed"
                break
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        time.sleep(float(rng.random()) * 0.003)
        child.kill()
        child.wait()
        killed += child.returncode == -signal.SIGKILL
        before = (log.stat().st_size - header) // record
    whole = Trainer(model, settings)
    whole.fit(*data, steps=steps, log=folder / "whole", keep="last")
    assert log.read_bytes() == (folder / "whole").read_bytes()
    assert (folder / "final.tflite").read_bytes() == whole.export().to_bytes()
    return killed
