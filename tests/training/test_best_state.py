"""Do no harm: a run keeps the best state that it measures, the first one included, and its log has it."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.moments import At, interrupt, stop
from helpers.runs import packed, random_samples, state
from tflm_zo.converters import initial_weights
from tflm_zo.core import is_due
from tflm_zo.logs import Log, LogError, LogWriter, replay_log
from tflm_zo.training import Callback, RunProgress, Settings, Trainer, Weights, executors, run_data
from tflm_zo.training import run as any_run
from tflm_zo.training.best_state import measuring_interval
from tflm_zo.training.run_data import RunData

RNG = np.random.default_rng(8)
X, Y = random_samples(RNG)
OTHER = random_samples(RNG, 9)
STEPS = 12  # of 8 samples: four epochs

MODELS_OF = {
    "weight": inject_all(MODELS["small_cnn"](), batch=4),
    "node": inject_all(MODELS["small_cnn"](), batch=4, nodes="auto"),
}
# Rates at which the losses go up and down.
SETTINGS: dict[str, Any] = {
    "weight": Settings(tasks=(Weights(queries=2),), batch_size=8, learning_rate=2.0, seed=3),
    "node": Settings(batch_size=8, learning_rate=3.0, snapshot_every=4, seed=3),
}
KINDS = list(SETTINGS)


def of_log(kind: str, log: Path) -> dict[str, bytes]:
    return packed(*replay_log(MODELS_OF[kind], log))


def best_index(measurements: list[dict[str, float]]) -> int:
    """Place of the first of those with the smallest loss that are right as often as the first one."""
    least = measurements[0]["accuracy"]
    return min(
        (i for i, m in enumerate(measurements) if m["accuracy"] >= least), key=lambda i: (measurements[i]["loss"], i)
    )


def _leads(logits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Computes the lead of each class's logit over the largest of the others, [samples, classes]."""
    others = [np.delete(logits, i, 1).max(1) for i in range(logits.shape[1])]
    return logits - np.stack(others, 1)


def run(kind: str, log: Path | None = None, runtime: str = "litert", **changes: Any) -> tuple[Trainer, Any]:
    trainer = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime=runtime)
    history = trainer.fit(X, Y, **({"steps": STEPS, "log": log} | changes))
    return trainer, history


@pytest.mark.parametrize("total, per_epoch, expected", [(12, 3, 3), (60, 3, 3), (61, 3, 6), (2, 30, 30), (1, 1, 1)])
def test_interval(total: int, per_epoch: int, expected: int) -> None:
    assert measuring_interval(total, per_epoch) == expected


def test_it_measures_at_most_20_times_and_before_and_after() -> None:
    for total in (1, 19, 20, 21, 400, 12345):
        every = measuring_interval(total, 1)
        counted = 0
        for step in range(total + 1):
            counted += is_due(every, total, step, counted)
        assert 2 <= counted <= 21 and is_due(every, total, 0, 0)
        assert is_due(every, total, total, counted - 1)


@pytest.mark.parametrize("runtime", ["litert", "tflm"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_measured_state_is_kept(kind: str, runtime: str, tmp_path: Path) -> None:
    trainer, history = run(kind, tmp_path / "log", runtime, validation_data=OTHER)
    losses = [m["loss"] for m in history.measurements]
    assert [m["step"] for m in history.measurements] == [0, 3, 6, 9, 12]
    at = best_index(history.measurements)
    assert history.kept_step == 3 * at
    assert 0 < min(losses) and len(set(losses)) > 2
    # Measurements of the final weights, and of those before, equal evaluations.
    best = history.measurements[at]
    assert trainer.evaluate(*OTHER) == {"loss": best["loss"], "accuracy": best["accuracy"]}
    fresh = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime=runtime)
    assert fresh.evaluate(*OTHER)["loss"] == losses[0]
    assert history.history["val_loss"] == losses[1:]
    # The same steps without measuring, stopped there, lead to the same weights, and so does the log.
    if history.kept_step:
        last = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime=runtime)
        last.fit(X, Y, steps=STEPS, keep="last", callbacks=[At(history.kept_step - 1, stop)])
        assert state(last) == state(trainer)
    assert of_log(kind, tmp_path / "log") == state(trainer)
    log = Log.read(tmp_path / "log")
    assert log.best is not None and log.best.step == history.kept_step and log.best.loss == best["loss"]
    assert [m.loss for m in log.measurements] == losses


@pytest.mark.parametrize("kind", KINDS)
def test_many_training_samples_are_measured_by_some(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures the same number of samples for every seed, none without a label, and not the first ones."""
    monkeypatch.setattr(run_data, "_MOST_SAMPLES", 10)
    y = np.where(np.arange(24) % 2, Y, -1)
    trainer = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime="litert")
    measured = RunData.of(trainer.runtime, X, y).measured
    assert len(measured.inputs[0]) == len(measured) == 10 and (measured.labels >= 0).all()
    numbers = [int(np.flatnonzero((X == x).all((1, 2, 3)))[0]) for x in measured.inputs[0]]
    assert numbers == sorted(set(numbers)) and set(numbers) < set(range(1, 24, 2))
    assert numbers != list(range(1, 20, 2)) and (y[numbers] == measured.labels).all()
    before = trainer.evaluate(measured)
    history = trainer.fit(X, y, steps=STEPS)
    assert history.measurements[0] == {"step": 0, **before}
    kept = history.measurements[best_index(history.measurements)]
    assert trainer.evaluate(measured)["loss"] == kept["loss"]
    other = Trainer(MODELS_OF[kind], dataclasses.replace(SETTINGS[kind], seed=4), runtime="litert")
    assert other.fit(X, y, steps=2).measurements[0] == {"step": 0, **before}
    # Validation data are measured as they are.
    monkeypatch.setattr(run_data, "_MOST_SAMPLES", 5)
    begin = initial_weights(MODELS_OF[kind])
    again = other.fit(X, y, steps=2, validation_data=OTHER, initial_weights=begin)
    found = again.measurements[0]["loss"]
    assert found == Trainer(MODELS_OF[kind], SETTINGS[kind], runtime="litert").evaluate(*OTHER)["loss"]


def test_ten_thousand_samples_are_measured_by_all() -> None:
    trainer = Trainer(MODELS_OF["node"], SETTINGS["node"])
    for count in (9_999, 10_000, 10_001, 123_456):
        x, y = np.zeros((count, 8, 8, 1), np.int8), np.arange(count) % 4
        found = RunData.of(trainer.runtime, x, y).measured.labels
        assert len(found) == min(count, 10_000)
        # Of every class as many as there are, but for chance: 2,500 of 10,000, deviation 43.
        assert np.abs(np.bincount(found) / len(found) - 0.25).max() < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_gets_better_nothing_is_changed(kind: str, tmp_path: Path) -> None:
    """Trains on the opposite of its own guesses, on which it is measured."""
    plain = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime="litert")
    before, y = state(plain), plain.predict(X).reshape(len(X), -1).argmax(1)
    exported, opposite = plain.export().to_bytes(), (y + 1) % 4
    trainer = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime="litert")
    history = trainer.fit(X, opposite, steps=STEPS, log=tmp_path / "log", validation_data=(X, y))
    assert history.kept_step == 0 and trainer.step == STEPS
    assert state(trainer) == before == of_log(kind, tmp_path / "log")
    assert trainer.export().to_bytes() == exported
    assert trainer.evaluate(X, y)["loss"] == history.measurements[0]["loss"]
    last = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime="litert")
    last.fit(X, opposite, steps=STEPS, keep="last")
    assert last.evaluate(X, y)["loss"] > history.measurements[0]["loss"]


@pytest.mark.parametrize("runtime", ["litert", "tflm"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_smaller_loss_with_fewer_right_outputs_is_no_better(kind: str, runtime: str, tmp_path: Path) -> None:
    """Samples and labels are chosen such that an epoch makes the loss smaller and the accuracy lower."""
    settings = dataclasses.replace(SETTINGS[kind], learning_rate=10.0)
    before, after, trainer = (Trainer(MODELS_OF[kind], settings, runtime=runtime) for _ in range(3))
    after.fit(X, Y, steps=3, keep="last")
    pool = random_samples(RNG, 500)[0]
    first, last = (_leads(t.predict(pool).reshape(len(pool), -1).astype(int)) for t in (before, after))
    helped = np.argwhere((first < 0) & (last < 0) & (last > first + 10))
    spoilt = np.argwhere((first > 0) & (last < 0))
    number, label = np.concatenate([spoilt[:1], helped[:20]]).T
    chosen = pool[number], label
    history = trainer.fit(X, Y, steps=3, log=tmp_path / "log", validation_data=chosen)
    begin, end = history.measurements
    assert end["loss"] < begin["loss"] and end["accuracy"] < begin["accuracy"]
    assert history.kept_step == 0 and state(trainer) == state(before) == of_log(kind, tmp_path / "log")


@pytest.mark.parametrize("kind", KINDS)
def test_of_states_that_are_as_good_the_first_is_kept(kind: str) -> None:
    """Sets a rate at which no weight leaves its place."""
    still = dataclasses.replace(SETTINGS[kind], learning_rate=2.0**-16)
    history = Trainer(MODELS_OF[kind], still, runtime="litert").fit(X, Y, steps=STEPS)
    assert len(history.measurements) == 5 and len({m["loss"] for m in history.measurements}) == 1
    assert history.kept_step == 0


class Watch(Callback):
    progress: RunProgress

    def on_train_begin(self, progress: RunProgress) -> None:
        self.progress = progress


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_before_the_best_state_was_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the best measured weights, even if no copy of them was made."""
    trainer, measured = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime="litert"), []
    watch = Watch()
    module = {"weight": executors, "node": any_run}[kind]
    real_evaluate, real_read = module.evaluate, trainer.runtime.read_weights

    def better_each_time(*arguments: Any) -> Any:
        measured.append(watch.progress.step)
        return dataclasses.replace(real_evaluate(*arguments), loss_sum=1000 - len(measured))

    def interrupted_at_the_third() -> Any:
        if len(measured) == 3 and watch.progress.step == measured[-1]:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return real_read()

    monkeypatch.setattr(module, "evaluate", better_each_time)
    monkeypatch.setattr(trainer.runtime, "read_weights", interrupted_at_the_third)
    history = trainer.fit(X, Y, steps=STEPS, callbacks=[watch])
    assert trainer.interrupted and history.kept_step == measured[2] == 6
    stopped = Trainer(MODELS_OF[kind], SETTINGS[kind], runtime="litert")
    stopped.fit(X, Y, steps=STEPS, keep="last", callbacks=[At(5, stop)])
    assert state(trainer) == state(stopped)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", slow_but(range(0, STEPS, 3), range(STEPS)))
def test_interrupted_anywhere(kind: str, step: int, tmp_path: Path) -> None:
    whole, history = run(kind, tmp_path / "whole")
    log = tmp_path / "log"
    trainer, part = run(kind, log, callbacks=[At(step, interrupt)])
    assert trainer.interrupted and trainer.step == step + 1
    measured = [m for m in history.measurements if m["step"] <= step + 1]
    assert part.measurements == measured
    best = measured[best_index(measured)]
    assert part.kept_step == best["step"] and trainer.evaluate(X, Y)["loss"] == best["loss"]
    assert of_log(kind, log) == state(trainer)
    again, rest = run(kind, log, resume=True)
    assert log.read_bytes() == (tmp_path / "whole").read_bytes()
    assert state(again) == state(whole)
    assert (rest.measurements, rest.kept_step) == (history.measurements, history.kept_step)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_write(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumes from the file after any write, and ends with the same bytes."""
    states: list[bytes] = []
    real = LogWriter._write_at

    def write(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        states.append((tmp_path / "whole").read_bytes() if (tmp_path / "whole").exists() else b"")

    with monkeypatch.context() as patch:
        patch.setattr(LogWriter, "_write_at", write)
        whole, history = run(kind, tmp_path / "whole")
    expected = (tmp_path / "whole").read_bytes()
    assert len(states) >= STEPS + 5
    for number, content in enumerate(states):
        if not content:
            continue
        log = tmp_path / f"{number}"
        log.write_bytes(content)
        trainer, rest = run(kind, log, resume=True)
        assert log.read_bytes() == expected, number
        assert state(trainer) == state(whole) and rest.measurements == history.measurements


def test_a_damaged_best_state_is_written_again(tmp_path: Path) -> None:
    """Keeps the state before the last snapshot after a power cut within slot 2 while the best is measured."""
    whole, history = run("node", tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    read = Log.read(tmp_path / "whole")
    assert read.best_slot is not None and read.best_slot.step == history.kept_step > 0
    at = data.rindex(read.best_slot.weights.tobytes())
    torn = tmp_path / "torn"
    torn.write_bytes(data[: at + 9] + b"\xa5" * 5 + data[at + 14 :])
    left = Log.read(torn)
    assert left.best_slot is None
    # The best that there is: the first state, or the last snapshot if that was measured.
    there = {0, STEPS}
    expected = min(
        (m for m in left.measurements if m.step in there and m.correct >= left.measurements[0].correct),
        key=lambda m: m.loss_sum,
    )
    assert left.best == expected
    trainer, rest = run("node", torn, resume=True)
    assert rest.kept_step == expected.step and of_log("node", torn) == state(trainer)


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_measures_the_same_data(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    run(kind, log, validation_data=OTHER, callbacks=[At(4, interrupt)])
    data = log.read_bytes()
    for changes in ({}, {"validation_data": (OTHER[0][::-1].copy(), OTHER[1])}):
        with pytest.raises(LogError, match="measured other data"):
            run(kind, log, resume=True, **changes)
    with pytest.raises(LogError, match="keeps the best state that it measures.*: give the same keep"):
        run(kind, log, resume=True, keep="last", validation_data=OTHER)
    assert log.read_bytes() == data
    run(kind, log, resume=True, validation_data=OTHER)


def test_keep_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="`keep` must be one of best, last. Received: 'first'"):
        run("weight", keep="first")
