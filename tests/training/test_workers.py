"""A run of weight perturbation does not depend on the number of workers, or on failures of them."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import files_of, run
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.moments import interrupt_at_line
from helpers.processes import start, wait_until
from helpers.runs import weight_settings
from tflm_zo.converters import Model
from tflm_zo.core import Coordinate, Gaussian
from tflm_zo.data import prepare
from tflm_zo.logs import Log
from tflm_zo.training import Callback, RunProgress, Settings, SettingsError, Trainer, Workers, WorkersError, algorithms
from tflm_zo.training.evaluation import evaluate
from tflm_zo.training.weight_run import WeightRun
from tflm_zo.training.workers import _Holder

ray = pytest.importorskip("ray", reason="RAY IS NOT INSTALLED: NO RUN WAS SHARED BY WORKERS")

SAMPLES, STEPS = 22, 9

# Of injection, of the settings' weights: blocks begin behind segments that other invokes have run.
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "chain": ("small_cnn", {}, {"queries": 3}),
    "depthwise, 8 bit": ("depthwise_separable", {"update_bits": 8}, {"queries": 2, "batch_size": 8}),
    "residual, one-sided": ("residual", {}, {"estimator": "one-sided", "queries": 2}),
    "gaussian, blocks": (
        "small_cnn",
        {"update_bits": 8, "cuts": ("pool",)},
        {"scope": "blocks", "perturbation": Gaussian(0.6), "queries": 2},
    ),
    "coordinate": ("small_cnn", {}, {"perturbation": Coordinate(2), "queries": 4, "learning_rate": 9.0}),
}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Starts one for all tests: it takes seconds."""
    before = signal.getsignal(signal.SIGTERM)  # Ray leaves a handler of its own
    ray.init("local", num_cpus=5, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    signal.signal(signal.SIGTERM, before)
    yield
    ray.shutdown()


def made(name: str) -> tuple[Model, Settings]:
    network, injection, changes = RUNS[name]
    model = inject_all(MODELS[network](), **{"batch": 4, "command_words": 1000, **injection})
    return model, weight_settings(**{"batch_size": 4, **changes})


def samples(trainer: Trainer) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    loss = trainer.runtime.metadata.loss
    assert loss is not None
    x = rng.integers(-128, 128, (SAMPLES, *trainer.runtime.input_details()[0][1:])).astype(np.int8)
    return x, rng.integers(0, loss.elements, SAMPLES)


def outcome(name: str, log: Path, workers: int, callbacks: tuple[Callback, ...] = (), **fit: Any) -> tuple[Any, ...]:
    """Returns all results of a run."""
    model, settings = made(name)
    trainer = Trainer(model, settings, workers=workers)
    x, y = samples(trainer)
    history = trainer.fit(x, y, steps=STEPS, validation_data=(x[:9], y[:9]), log=log, callbacks=callbacks, **fit)
    weights = {key: values.tobytes() for key, values in trainer.runtime.read_weights().items()}
    return log.read_bytes(), weights, history.measurements, history.history, history.forwards


# A worker takes two seconds of a core to start.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param(name, workers, marks=() if name in kept and workers == 2 else pytest.mark.slow)
        for kept in [("chain",)]
        for name in RUNS
        for workers in ((1, 2, 4) if name == "chain" else (2,))
    ],
)
def test_the_run_is_the_same(name: str, workers: int, tmp_path: Path) -> None:
    alone = outcome(name, tmp_path / "0.zolog", 0)
    assert outcome(name, tmp_path / f"{workers}.zolog", workers) == alone


def processes() -> list[int]:
    """Lists the workers' processes: Ray names them after their tasks. Theirs is a child of this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            pid = int(path.parent.name)
            if path.read_bytes().startswith(b"ray::_Holder") and parent(parent(pid)) == os.getpid():
                found.append(pid)
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Kill(Callback):
    """Kills a worker after some steps, as a machine does that fails."""

    killed = 0

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        step = progress.step - 1
        if step % 3 == 1:
            running = processes()
            os.kill(running[step % len(running)], signal.SIGKILL)
            self.killed += 1


@pytest.mark.slow
def test_dead_workers_are_replaced(tmp_path: Path) -> None:
    alone, kill = outcome("chain", tmp_path / "0.zolog", 0), Kill()
    assert outcome("chain", tmp_path / "2.zolog", 2, (kill,)) == alone
    assert kill.killed == 3


class Die(Callback):
    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        if progress.step == 5:
            raise MemoryError


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (2, 3)])
def test_the_run_goes_on_from_its_log(before: int, after: int, tmp_path: Path) -> None:
    """Resumes with other workers, or without any."""
    alone, log = outcome("chain", tmp_path / "0.zolog", 0), tmp_path / "1.zolog"
    with pytest.raises(MemoryError):
        outcome("chain", log, before, (Die(),))
    went_on = outcome("chain", log, after, resume=True)
    assert (went_on[0], went_on[1]) == (alone[0], alone[1])


@pytest.mark.slow
def test_interrupted_at_any_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts before random lines of a step: workers then evaluate the weights of the last complete step."""
    files = ("executors.py", "training/workers.py", "weight_run.py")
    ended: list[tuple[int, Any, Any]] = []

    model, settings = made("chain")
    x, y = samples(Trainer(model, settings))
    data = prepare(Trainer(model, settings).runtime, x, y)

    def fit(workers: int | Workers) -> bytes:
        log = tmp_path / "run.zolog"
        Trainer(model, settings, workers=workers).fit(x, y, steps=STEPS, log=log, replace=True)
        return log.read_bytes()

    alone = fit(0)
    left = interrupt_at_line(monkeypatch, WeightRun, "advance", files)
    traced = WeightRun.advance

    def advance(run: Any) -> Any:
        try:
            return traced(run)
        except KeyboardInterrupt:
            run.roll_back()
            ended.append((run.step, run.evaluate(data), evaluate(run._runtime, data)))
            raise

    monkeypatch.setattr(WeightRun, "advance", advance)
    with Workers(2) as workers:
        assert fit(workers) == alone and not ended
        lines = 2**62 - left[0]
        assert lines > 30 * STEPS
        rng = np.random.default_rng(5)
        for line in (0, *rng.integers(lines // 2, lines, 3)):
            left[0] = int(line) + 20
            log = fit(workers)
            assert alone.startswith(log) and len(log) < len(alone)
            step, shared, own = ended.pop()
            assert shared == own and 0 <= step < STEPS and not ended


@pytest.mark.slow
def test_workers_of_the_caller_stay(tmp_path: Path) -> None:
    alone = outcome("chain", tmp_path / "0.zolog", 0)
    with Workers(2) as workers:
        for run in ("1", "2"):
            assert outcome("chain", tmp_path / f"{run}.zolog", workers) == alone
            assert workers.count == 2
    assert workers.count == 0


class Mortal:
    def __init__(self) -> None:
        pass

    def die(self) -> None:
        os._exit(1)

    def wait(self, seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    def fail(self) -> None:
        raise SettingsError("x", "be 1")


@pytest.mark.slow
def test_workers_that_keep_dying() -> None:
    with Workers(1) as workers:
        workers.start(Mortal)
        (process,) = workers.call("wait", [(0.0,)], lambda _: (0.0,))
        with pytest.raises(WorkersError, match="worker 0 died 4 times in a row"):
            workers.call("die", [()], lambda _: ())
        assert workers.call("wait", [(0.0,)], lambda _: (0.0,)) != [process]


@pytest.mark.slow
def test_a_call_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray is asked now and then whether the worker is there."""
    monkeypatch.setattr("tflm_zo.training.workers._PATIENCE", 0.02)
    with Workers(2) as workers:
        workers.start(Mortal)
        first = workers.call("wait", [(0.3,), (0.0,)], lambda _: (0.0,))
        assert len(set(first)) == 2 and os.getpid() not in first
        assert workers.call("wait", [(0.0,), (0.1,)], lambda _: (0.0,)) == first


@pytest.mark.slow
def test_what_a_call_raises_is_raised_here() -> None:
    with Workers(2) as workers:
        workers.start(Mortal)
        with pytest.raises(SettingsError, match="`x` must be 1"):
            workers.call("fail", [(), ()], lambda _: ())
        assert len(set(workers.call("wait", [(0.1,), (0.0,)], lambda _: (0.0,)))) == 2


class Elsewhere(_Holder):
    """A worker behind a firewall."""

    def listen(self, key: bytes) -> Any:
        super().listen(key)
        return "127.0.0.1", 9


@pytest.mark.slow
def test_a_worker_that_cannot_be_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tflm_zo.training.workers._Holder", Elsewhere)
    with Workers(1) as workers:
        workers.start(Mortal)
        with pytest.raises(WorkersError, match=r"a worker at 127\.0\.0\.1:9 cannot be connected to: .*refused"):
            workers.call("wait", [(0.0,)], lambda _: (0.0,))


@pytest.mark.slow
def test_a_machine_that_belongs_to_a_cluster() -> None:
    """Workers that no cluster was named for have one of their own."""
    program = (
        "from tflm_zo.training import Workers\n"
        "with Workers(1) as workers:\n"
        "    workers.start(dict, {'a': 5})\n"
        "    print(workers.call('get', [('a',)], lambda _: ()))\n"
    )
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # a short name: there are sockets in it
        (Path(folder) / "ray").mkdir()
        (Path(folder) / "ray" / "ray_current_cluster").write_text("127.0.0.1:9")  # nobody answers there
        command, environment = [sys.executable, "-c", program], {**os.environ, "RAY_TMPDIR": folder}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout == "[5]\n", done.stderr


def test_refused() -> None:
    with pytest.raises(ValueError, match="`workers` must be a number >= 1. Received: 0"):
        Workers(0)
    for settings in (algorithms.node(batch_size=24), algorithms.elastic_zo(batch_size=24)):
        with pytest.raises(SettingsError, match="`workers` must be 0 for a layer-wise run"):
            Trainer(MODELS["small_cnn"](), settings, workers=2)


@pytest.mark.slow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(MODELS["small_cnn"]())
    x, y = samples(Trainer(MODELS["small_cnn"](), algorithms.weight(batch_size=8)))
    np.savez("data.npz", x=x, y=y)
    given = ("model.tflite", "data.npz", "--algorithm", "weight", "--batch-size", 8, "--steps", 6)
    run("train", *given, "-o", "alone.tflite")
    run("train", *given, "-o", "shared.tflite", "--workers", 2)
    assert files_of("alone") == files_of("shared")
    refused = run("train", *given[:2], "-o", "nodes.tflite", "--workers", 2, code=1)
    assert "must be 0 for a layer-wise run" in refused.output and not Path("nodes.tflite").exists()


@pytest.mark.slow
@pytest.mark.parametrize("ending", slow_but([signal.SIGINT], [signal.SIGINT, signal.SIGTERM]), ids=lambda s: s.name)
def test_a_command_that_is_ended(ending: signal.Signals, tmp_path: Path) -> None:
    """Resumes like a run without workers. SIGINT goes to all processes of a terminal."""
    (tmp_path / "model.tflite").write_bytes(MODELS["small_cnn"]())
    x, y = samples(Trainer(MODELS["small_cnn"](), algorithms.weight(batch_size=8)))
    np.savez(tmp_path / "data.npz", x=x, y=y)
    given = ("train", "model.tflite", "data.npz", "--algorithm", "weight", "--batch-size", 8, "--workers", 2)
    more = ("--steps", 100_000, "-o", "cut.tflite", "--keep", "last")
    child = start(*given, *more, folder=tmp_path, start_new_session=True)
    wait_until(lambda: (tmp_path / "cut.zolog").exists() and (tmp_path / "cut.zolog").stat().st_size > 2000)
    if ending is signal.SIGINT:
        os.killpg(child.pid, ending)
    else:
        child.send_signal(ending)
    _, stderr = child.communicate(timeout=120)
    assert child.returncode == 128 + ending, stderr
    done = len(Log.read(tmp_path / "cut.zolog").steps)
    assert stderr.splitlines()[-1].startswith(
        f"warning: interrupted: cut.zolog ends with the last complete step, {done}. cut.tflite has the weights of "
    )
