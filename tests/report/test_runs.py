"""A run in a report: the trainer's own numbers, and those of its exported models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.oracle.stream import Dist, direction
from helpers.runs import layerwise_settings, random_samples, settings_of, weight_settings
from tflm_zo import algorithms
from tflm_zo.converters import Model, export_model
from tflm_zo.firmware import generate_firmware, plan_run
from tflm_zo.firmware.sizes import flash_of_training
from tflm_zo.logs import LogError
from tflm_zo.report import RecordedRun, TestData, ZoFile, read_run, report_runs, write_report
from tflm_zo.report.document import RunReport
from tflm_zo.report.evaluation import _histogram
from tflm_zo.training import Settings, Trainer
from tflm_zo.training.injection import inject_for

X, Y = random_samples(5, 40)
X10 = np.random.default_rng(6).integers(-128, 128, (40, 28, 28, 1)).astype(np.int8)
Y10 = np.arange(40) % 10

SETTINGS: dict[str, Settings] = {
    "weight": weight_settings(batch_size=8, learning_rate=1.0),
    "one-sided": weight_settings(batch_size=8, learning_rate=1.0, queries=3, estimator="one-sided"),
    "blocks": weight_settings(batch_size=8, learning_rate=1.0, scope="blocks"),
    "qzo-ff": settings_of("qzo-ff", batch_size=8, learning_rate=1.0),
    "node": layerwise_settings(batch_size=8, learning_rate=1.0),
    "exact head": layerwise_settings(batch_size=8, learning_rate=1.0, **{"exact.last": 1}),
    "some layers": layerwise_settings(batch_size=8, learning_rate=1.0, layers="fc*"),
    "one-sided nodes": layerwise_settings(batch_size=8, learning_rate=1.0, estimator="one-sided"),
    "exact": settings_of("fqt", batch_size=8),
    "poor man's": settings_of("poor-mans-training", batch_size=8, learning_rate=1.0),
    "elastic": settings_of("elastic-zo-int8", batch_size=8),
}


def trained(
    folder: Path, settings: Settings, *, name: str = "lenet5", steps: int = 7, keep: Any = "last"
) -> tuple[Trainer, Any, RecordedRun]:
    x, y = (X, Y) if name == "small_cnn" else (X10, Y10)
    trainer = Trainer(MODELS[name](), settings)
    history = trainer.fit(x, y, steps=steps, log=folder / "run.zolog", keep=keep)
    trainer.model.save(folder / "run.zo.tflite")
    return trainer, history, read_run(folder / "run.zolog", [])


def report_of(run: RecordedRun, data: TestData | None = None) -> RunReport:
    (found,) = report_runs([run], data).runs
    return found


@pytest.mark.parametrize("name", slow_but(list(SETTINGS)[::3], SETTINGS))
def test_costs_and_losses_are_the_trainers(name: str, tmp_path: Path) -> None:
    trainer, history, run = trained(tmp_path, SETTINGS[name])
    found = report_of(run)
    assert found.equivalents == pytest.approx(trainer.equivalents, rel=1e-8)
    assert found.curve.mean == found.curve.least == found.curve.most
    assert list(found.curve.mean) == pytest.approx(history.steps, rel=1e-5)
    assert found.curve.steps == tuple(range(1, 8))
    assert (found.steps, found.planned_steps, found.kept_step) == (7, 7, 7)
    assert found.kind == ("snapshot log" if SETTINGS[name].is_layerwise else "seed log")
    assert found.notes == () and found.measurements == ()


def filters(model: Model) -> dict[str, NDArray[Any]]:
    """Returns filters and biases of a plain model by name: the tensors that a run can change."""
    tensors = [t for g in model.subgraphs for op in g.operators for t in op.inputs if t is not None]
    return {t.name: t.numpy() for t in tensors if t.is_constant}


@pytest.mark.parametrize("name", ["weight", "node", "poor man's"])
def test_layers_are_those_of_the_exported_models(name: str, tmp_path: Path) -> None:
    trainer, _, run = trained(tmp_path, SETTINGS[name], steps=20)
    before, after = filters(export_model(trainer.model)), filters(trainer.export())
    changed = {n: after[n].astype(int) - before[n].astype(int) for n in before if before[n].size}
    changed = {n: moves for n, moves in changed.items() if moves.any()}
    found = report_of(run).layers
    assert len(found) == len(run.metadata.trainable)
    moved = {t.name: c for t, c in zip(run.metadata.trainable, found, strict=True) if c.moved}
    assert len(moved) == len(changed) > 1
    for (tensor, change), (other, moves) in zip(sorted(moved.items()), sorted(changed.items()), strict=True):
        assert tensor.split("/")[0] == other.split("/")[0]
        assert change.size == moves.size and change.moved == np.count_nonzero(moves)
        assert change.mean_move == pytest.approx(np.abs(moves).mean(), rel=1e-5)
        assert change.largest_move == np.abs(moves).max()
        assert change.bound is not None
        assert change.at_bound == np.count_nonzero(np.abs(after[other].astype(int)) >= change.bound)
        assert change.at_bound_before == np.count_nonzero(np.abs(before[other].astype(int)) >= change.bound)
        assert change.trained_by in ("weight perturbation", "node perturbation")
        assert change.histogram is not None and sum(change.histogram.counts) == moves.size


def test_layers_that_a_run_leaves_as_they_are(tmp_path: Path) -> None:
    _, _, run = trained(tmp_path, SETTINGS["some layers"])
    found = report_of(run).layers
    left = [c for c in found if not c.trained_by]
    assert left and all(not c.moved and c.histogram is None for c in left)
    assert {c.layer for c in found if c.trained_by} == {"fc1", "fc2", "fc3"}
    (tmp_path / "exact").mkdir()
    exact = [c.trained_by for c in report_of(trained(tmp_path / "exact", SETTINGS["exact head"])[2]).layers]
    assert exact[-1] == "exact gradient" and set(exact[:-1]) == {"node perturbation"}


@pytest.mark.parametrize("reach", [1, 2, 3, 19, 20, 21, 22, 61, 62, 254, 100_000])
def test_histogram_bins(reach: int) -> None:
    rng = np.random.default_rng(reach)
    moves = np.concatenate([[-reach, 0], rng.integers(-reach, reach + 1, 500)])
    found = _histogram(moves)
    edges = [found.first + i * found.width - 0.5 for i in range(len(found.counts) + 1)]
    assert found.counts == tuple(np.histogram(moves, edges)[0])
    assert sum(found.counts) == len(moves) and len(found.counts) % 2 == 1 and len(found.counts) <= 41
    assert found.width % 2 == 1 and edges[0] == -edges[-1]  # the middle bin is around 0
    if reach <= 20:
        assert found.width == 1


@pytest.mark.parametrize("name", ["weight", "node"])
def test_measurements_are_the_trainers(name: str, tmp_path: Path) -> None:
    trainer, history, run = trained(tmp_path, SETTINGS[name], name="small_cnn", steps=30, keep="best")
    found = report_of(run)
    assert len(found.measurements) == len(history.measurements) > 2
    for m, expected in zip(found.measurements, history.measurements, strict=True):
        assert m.step == expected["step"] and m.samples == len(X)
        assert m.loss == pytest.approx(expected["loss"], rel=1e-5)
        assert m.accuracy == pytest.approx(expected["accuracy"], rel=1e-5)
    assert [m.step for m in found.measurements if m.kept] == [found.kept_step] == [history.kept_step]
    weights = trainer.runtime.read_weights()
    assert all(np.array_equal(weights[n], run.weights[n]) for n in weights)
    assert found.measurements[-1].equivalents == pytest.approx(trainer.equivalents, rel=1e-5)


def test_accuracy_before_and_after(tmp_path: Path) -> None:
    """Counts the predictions of the trainer itself, one by one."""
    trainer, _, run = trained(tmp_path, SETTINGS["weight"], name="small_cnn", steps=40)
    labels = Y.copy()
    labels[::7] = -1  # samples without a label count nowhere
    initial = Trainer(trainer.model, SETTINGS["weight"])
    expected = []
    for other in (initial, trainer):
        guesses = other.predict(X).reshape(len(X), -1).argmax(1)
        counts = [[0] * 4 for _ in range(4)]
        for true, guess in zip(labels, guesses, strict=True):
            if true >= 0:
                counts[true][guess] += 1
        expected.append(counts)
    found = report_of(run, TestData(X, labels)).evaluation
    assert found is not None and found.data == "the data given"
    assert [[list(row) for row in m] for m in (found.confusion_before, found.confusion)] == expected
    assert found.samples == int((labels >= 0).sum())
    for measured, other, counts in zip((found.before, found.after), (initial, trainer), expected, strict=True):
        values = other.evaluate(X, labels)
        assert (measured.loss, measured.accuracy) == (values["loss"], values["accuracy"])
        assert measured.accuracy == sum(counts[i][i] for i in range(4)) / found.samples
    assert found.classes is not None
    for i, c in enumerate(found.classes.numbers):
        assert found.classes.samples[i] == int((labels == c).sum()) > 0
        right = (found.classes.right_before[i], found.classes.right[i])
        assert right == tuple(m[c][c] for m in expected)
    wrong = {(i, j): expected[1][i][j] for i in range(4) for j in range(4) if i != j and expected[1][i][j]}
    assert {(m.is_of, m.taken_for): m.samples for m in found.mistakes} == wrong
    assert [m.samples for m in found.mistakes] == sorted(wrong.values(), reverse=True)


def test_losses_that_are_of_no_classes(tmp_path: Path) -> None:
    """An autoencoder: its target is the sample, and nothing is right or wrong."""
    x = np.random.default_rng(0).integers(-128, 128, (16, 24)).astype(np.int8)
    trainer = Trainer(MODELS["autoencoder"](), weight_settings(batch_size=8, learning_rate=1.0))
    trainer.fit(x, steps=6, log=tmp_path / "run.zolog")
    trainer.model.save(tmp_path / "run.zo.tflite")
    found = report_of(read_run(tmp_path / "run.zolog", []), TestData(x))
    assert found.loss_unit == "squared output" and all(m.accuracy is None for m in found.measurements)
    evaluation = found.evaluation
    assert evaluation is not None and evaluation.after.accuracy is None
    assert evaluation.classes is None and evaluation.confusion == evaluation.mistakes == ()
    assert evaluation.after.loss == trainer.evaluate(x)["loss"]


def test_landscape(tmp_path: Path) -> None:
    """Points against losses of weights that were moved by signs drawn word by word."""
    trainer, _, run = trained(tmp_path, SETTINGS["weight"], name="small_cnn", steps=10)
    found = report_of(run, TestData(X, Y, landscape=True)).landscape
    assert found is not None and found.samples == len(X)
    assert found.offsets == tuple(range(-24, 25, 4))
    assert [len(row) for row in found.losses] == [13] * 13
    kept, bound = trainer.runtime.read_weights(), 127 - run.metadata.headroom
    for i, j in ((6, 6), (0, 6), (9, 2), (12, 12)):
        moved = {}
        for t in run.metadata.trainable:
            signs = [direction(Dist(0, 1), seed, t.stream, t.size).reshape(t.shape) for seed in found.seeds]
            wanted = kept[t.name].astype(int) + found.offsets[j] * signs[0] + found.offsets[i] * signs[1]
            moved[t.name] = np.clip(wanted, -bound, bound).astype(np.int8)
        trainer.runtime.write_weights(moved, run.fractions)
        assert found.losses[i][j] == pytest.approx(trainer.evaluate(X, Y)["loss"], rel=1e-5)


def test_the_same_report_every_time(tmp_path: Path) -> None:
    _, _, run = trained(tmp_path, SETTINGS["node"], name="small_cnn")
    data = TestData(X, Y, landscape=True)
    assert report_runs([run], data) == report_runs([read_run(tmp_path / "run.zolog", [])], data)


def test_models_that_are_named(tmp_path: Path) -> None:
    """Takes the model with the log's fingerprint, in any order and any folder."""
    trainer, _, _ = trained(tmp_path, SETTINGS["weight"], name="small_cnn")
    other = tmp_path / "other.zo.tflite"
    inject_all(MODELS["small_cnn"](), batch=4).save(other)
    (tmp_path / "run.zo.tflite").rename(tmp_path / "moved.zo.tflite")
    files = [ZoFile.read(other), ZoFile.read(tmp_path / "moved.zo.tflite")]
    assert read_run(tmp_path / "run.zolog", files).zo.path.name == "moved.zo.tflite"
    with pytest.raises(LogError, match="is of another model"):
        read_run(tmp_path / "run.zolog", files[:1])


def test_from_the_trainer(tmp_path: Path) -> None:
    trainer = Trainer(MODELS["small_cnn"](), algorithms.node(batch_size=8))
    with pytest.raises(ValueError, match="run: .* give fit a log"):
        write_report(tmp_path / "none.html", trainer)
    trainer.fit(X, Y, steps=5, log=tmp_path / "run.zolog")
    write_report(tmp_path / "run.html", trainer, X, Y)
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "Training run run" in text and "the data given" in text
    with pytest.raises(ValueError, match="landscape: .* give x, too"):
        write_report(tmp_path / "run2.html", trainer, landscape=True)
    with pytest.raises(FileExistsError):
        write_report(tmp_path / "run.html", trainer)
    trainer.model.save(tmp_path / "run.zo.tflite")
    write_report(tmp_path / "of_log.html", tmp_path / "run.zolog", X, Y)
    assert (tmp_path / "of_log.html").read_text(encoding="utf-8") == text
    # A second run begins with the weights that the first one led to: its log is of another model.
    trainer.fit(X, Y, steps=5, log=tmp_path / "second.zolog")
    write_report(tmp_path / "run.html", trainer, force=True)
    assert "Training run second" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_what_was_run(tmp_path: Path) -> None:
    """Describes the settings above in words."""
    _, _, run = trained(tmp_path, SETTINGS["one-sided"], steps=10)
    facts = {fact.name: fact.value for fact in report_of(run).facts}
    assert facts["Trained by"] == "weight perturbation of 5 layers"
    assert facts["Steps"] == "10 of 10 planned"
    assert facts["Data"] == "40 samples, 8 a step: 2.0 passes over them"
    assert facts["Cost"] == "320 forward equivalents, 32.0 a step"  # 8 samples, 3 queries and the point
    assert facts["Learning rate"] == "1 LSB at the first step, then linear to 0"
    assert facts["Perturbation"] == "Rademacher(1), 3 queries a step"
    assert (facts["Estimator"], facts["Seed"]) == ("one-sided", "0")
    assert facts["Weights kept"] == "those after step 10, the last in the log"
    (tmp_path / "nodes").mkdir()
    _, history, run = trained(tmp_path / "nodes", SETTINGS["exact head"], steps=10, keep="best")
    facts = {fact.name: fact.value for fact in report_of(run).facts}
    assert facts["Trained by"] == "node perturbation of conv2, fc1, fc2; exact gradient of fc3"
    assert facts["Perturbation"] == "2 to 24 queries for a sample and layer"
    assert f"of {len(history.measurements)} " in facts["Weights kept"]


@pytest.mark.parametrize("name", ["weight", "node"])
def test_the_memory_map_is_what_firmware_says(name: str, tmp_path: Path) -> None:
    """Shows the memory of one sample an invoke, independent of the desktop's batch."""
    _, _, run = trained(tmp_path, SETTINGS[name])
    found = report_of(run).memory
    assert found is not None
    plain = export_model(run.zo.model, batch=1)
    made = generate_firmware(inject_for(plain, SETTINGS[name], batch=1), SETTINGS[name], steps=7, samples=40)
    parts = {part.name: part.bytes for part in found.parts}
    assert sum(parts.values()) == found.ram_bytes == made.ram.bytes
    assert parts["trained weights"] == made.trainable_bytes
    assert (parts["workspace"], parts["objects"]) == (made.ram.workspace, made.ram.objects)
    assert (found.batch, found.minibatch) == (1, 8)
    assert found.flash_bytes == flash_of_training(plan_run(run.zo.model, SETTINGS[name], steps=7, samples=40))
