"""The learning rate that a layer-wise run measures before its first step."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.models import MODELS
from helpers.moments import At, stop
from tflm_zo.core import Coordinate, Gaussian, Rademacher
from tflm_zo.data import prepare
from tflm_zo.firmware import generate_firmware
from tflm_zo.runtime import available
from tflm_zo.training import Exact, Linear, Nodes, Settings, SettingsError, Trainer, Weights, algorithms, random_walks
from tflm_zo.training.node_run import NodeRun
from tflm_zo.training.random_walks import NodeWalks, RandomWalks, WeightWalks
from tflm_zo.training.rate import _bearable
from tflm_zo.training.rules import Gradient

SAMPLES, BATCH = 40, 32


def data() -> tuple[Any, Any]:
    """Samples with the model's own guesses as labels, which noise can only spoil."""
    x = np.random.default_rng(3).integers(-128, 128, (SAMPLES, 8, 8, 1)).astype(np.int8)
    return x, trainer().predict(x).reshape(SAMPLES, -1).argmax(1)


def trainer(runtime: str = "litert", **settings: Any) -> Trainer:
    return Trainer(MODELS["small_cnn"](), algorithms.node(**{"batch_size": BATCH, **settings}), runtime)


def weights_of(own: Trainer) -> dict[str, Any]:
    return {name: w.copy() for name, w in own.runtime.read_weights().items()}


@pytest.mark.parametrize(
    ("share", "walk"),
    [
        # One that is a power of the walk is interpolated without error.
        *((lambda found, w=w, p=p: 0.5 * (found / w) ** p, w) for w, p in ((0.7, 1), (0.26, 2), (0.04, 0.5), (0.9, 3))),
        (lambda _: 0.4, 1.0),
        (lambda _: 7.0, 2.0**-6),  # forgets all at once
    ],
)
def test_the_walk_is_where_half_is_forgotten(share: Any, walk: float) -> None:
    """Walks a network that bears noise once."""
    asked: list[float] = []

    def counted(tried: float) -> float:
        asked.append(tried)
        return float(share(tried))

    found = _bearable(counted, 1.0)
    assert found == pytest.approx(walk) and (walk < 1 or asked == [1.0])


def test_a_share_that_jumps_is_crossed_between_the_walks_that_were_tried() -> None:
    assert 0.25 <= _bearable(lambda found: 0.0 if found < 0.3 else 2.0, 1.0) <= 0.5


def test_the_share_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares with its definition, the mean over walks, with a spread that NumPy computes."""
    own = trainer()
    x, y = data()
    walks = NodeWalks(own.runtime, own.model, own.settings, prepare(own.runtime, x, y))
    walks.begin()
    before, shares = own.predict(x).astype(float), []
    whole = RandomWalks._outputs

    def spied(self: RandomWalks) -> Any:
        shares.append(((own.predict(x) - before) ** 2).mean() / before.reshape(SAMPLES, -1).var(0).mean())
        return whole(self)

    monkeypatch.setattr(RandomWalks, "_outputs", spied)
    found = walks.forgotten(20.0)
    assert len(set(shares)) == 4
    assert found == pytest.approx(np.mean(shares))


@pytest.mark.parametrize("batch_size", [1, 8, 32])
@pytest.mark.parametrize("tasks", [(Nodes(),), (Exact(last=1),)])
def test_a_walk_is_as_long_as_it_says(tasks: Any, batch_size: int) -> None:
    """A weight's mean square change along noise is the square of the walk's length, whatever the minibatch."""
    own = trainer(batch_size=batch_size)
    own.settings = dataclasses.replace(own.settings, tasks=tasks)
    walks = NodeWalks(own.runtime, own.model, own.settings, prepare(own.runtime, *data()))
    walks.begin()
    before = weights_of(own)
    # Exact gradients of wrong labels have a direction in common: their steps may add up to more.
    walks.forgotten(8.0)
    changes = {name: w.astype(float) - before[name] for name, w in own.runtime.read_weights().items()}
    lengths = [math.sqrt(float((c**2).mean())) for c in changes.values() if c.any()]
    assert lengths
    assert all(3.5 < length < (16 if tasks == (Nodes(),) else 33) for length in lengths), lengths


@pytest.mark.parametrize("distribution", [Rademacher(2), Gaussian(0.7)])
@pytest.mark.parametrize("layers", [None, ("fc",)])
def test_a_walk_of_weight_perturbation_is_as_long_as_it_says(distribution: Any, layers: Any) -> None:
    """Moves the same tensors as the run: all weights and no bias, or those of its trained layers."""
    scope = "model" if layers is None else "layers"
    settings = algorithms.weight(batch_size=BATCH, perturbation=distribution)
    settings = dataclasses.replace(settings, tasks=(dataclasses.replace(settings.weights, scope=scope),), layers=layers)
    own = Trainer(MODELS["small_cnn"](), dataclasses.replace(settings, layers=None), "litert")
    walks = WeightWalks(own.runtime, own.model, settings, prepare(own.runtime, *data()))
    walks.begin()
    before = weights_of(own)
    squares: dict[str, list[float]] = {}
    whole = RandomWalks._outputs

    def spied(self: RandomWalks) -> Any:
        for name, w in own.runtime.read_weights().items():
            squares.setdefault(name, []).append(((w.astype(float) - before[name]) ** 2).mean())
        return whole(self)

    walks._outputs = spied.__get__(walks)  # type: ignore[method-assign]
    walks.forgotten(6.0)
    moved = {t.layer: squares[t.name] for t in own.runtime.metadata.trainable if np.any(squares[t.name])}
    assert list(moved) == ["conv", "fc"] if layers is None else ["fc"]
    assert all(len(set(found)) == 4 for found in moved.values())
    assert all(math.sqrt(np.mean(found)) == pytest.approx(6, rel=0.2) for found in moved.values())


@pytest.mark.parametrize(("walk", "share"), [(6.0, 0.25), (1.2, 0.05), (30.0, 1.0)])
@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("kind", ["weight", "layer"])
def test_weight_perturbation_takes_a_share_of_the_usual_rate(
    monkeypatch: pytest.MonkeyPatch, kind: str, queries: int, walk: float, share: float
) -> None:
    """Takes W / 24 LSB of it, if W is less."""
    monkeypatch.setattr(RandomWalks, "forgotten", lambda _, found: 0.5 * (found / walk) ** 2)
    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    settings = getattr(algorithms, kind)(batch_size=BATCH, queries=queries)
    own = Trainer(MODELS["small_cnn"](), settings, "litert")
    own.fit(*data(), steps=2, keep="last")
    assert own.measured_rate == pytest.approx(share * 2 * math.sqrt(queries), rel=0.01)


@pytest.mark.parametrize("kind", [algorithms.node, algorithms.weight])
def test_an_interrupted_measurement_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    """Restores the weights, and no step was done."""
    own = Trainer(MODELS["small_cnn"](), kind(batch_size=BATCH), "litert")
    before, whole, asked = weights_of(own), RandomWalks._outputs, []

    def interrupted(self: RandomWalks) -> Any:
        asked.append({name: w.copy() for name, w in own.runtime.read_weights().items()})
        if len(asked) == 3:
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    monkeypatch.setattr(RandomWalks, "_outputs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        own.fit(*data(), steps=12)
    assert any(not np.array_equal(w, before[name]) for name, w in asked[-1].items())
    assert all(np.array_equal(w, before[name]) for name, w in weights_of(own).items())
    assert own.step == 0


def test_walks_of_exact_layers_have_labels_of_other_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of a sample's own label lead where training leads, and are no noise."""
    own, x, y = trainer(), data()[0], np.arange(SAMPLES) % 4
    own.settings = dataclasses.replace(own.settings, tasks=(Exact(last=1),))
    right, walked = {sample.tobytes(): label for sample, label in zip(x, y, strict=True)}, []

    class Spied(NodeRun):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            moved = given[3]
            walked.append(([right[sample.tobytes()] for sample in moved.inputs[0]], moved.labels.tolist()))

    monkeypatch.setattr(random_walks, "NodeRun", Spied)
    walks = NodeWalks(own.runtime, own.model, own.settings, prepare(own.runtime, x, y))
    walks.begin()
    walks.forgotten(1.0)
    assert len(walked) == 4
    for theirs, labels in walked:
        assert sorted(theirs) == sorted(labels)
        assert np.mean(np.equal(theirs, labels)) < 0.8


def test_a_measured_run_is_the_run_of_that_rate(tmp_path: Path) -> None:
    """Leaves no trace but the rate: logs are equal to the byte."""
    own = trainer()
    own.fit(*data(), steps=12, log=tmp_path / "measured.zolog", keep="last")
    assert own.measured_rate is not None
    told = trainer(learning_rate=own.measured_rate)
    told.fit(*data(), steps=12, log=tmp_path / "told.zolog", keep="last")
    assert told.measured_rate is None
    logs = [(tmp_path / f"{name}.zolog").read_bytes() for name in ("measured", "told")]
    assert logs[0] == logs[1]


def test_a_resumed_run_measures_the_same(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.zolog", tmp_path / "parts.zolog"
    trainer().fit(*data(), steps=12, log=whole, keep="last")
    trainer().fit(*data(), steps=12, log=parts, callbacks=[At(5, stop)], keep="last")
    trainer().fit(*data(), steps=12, log=parts, resume=True, keep="last")
    assert parts.read_bytes() == whole.read_bytes()


@pytest.mark.skipif("tflm" not in available(), reason="needs tflite-micro")
def test_runtimes_of_the_same_bits_measure_the_same() -> None:
    found = []
    for runtime in ("litert", "tflm"):
        own = trainer(runtime)
        own.fit(*data(), steps=300, callbacks=[At(0, stop)], keep="last")
        found.append(own.measured_rate)
    assert found[0] == found[1] is not None


def test_the_rate_is_a_sixteenth_of_the_square_of_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    for walk, expected in ((0.6, 0.022), (0.9, 0.051), (1.2, 1.0), (4.0, 1.0)):
        monkeypatch.setattr(RandomWalks, "forgotten", lambda _, found, walk=walk: 0.5 * (found / walk) ** 2)
        monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
        own = trainer()
        own.fit(*data(), steps=1, keep="last")
        assert own.measured_rate == expected


@pytest.mark.parametrize(
    ("walk", "batch_size", "lost", "rate"),
    [
        *((0.02, 1, False, 0.012), (0.2, 1, False, 0.12), (0.6, 1, False, 0.36), (0.6, 32, False, 0.36)),
        *((1.2, 1, False, 0.6), (1.2, 32, False, 0.6)),
        *((0.02, 1, True, 0.1), (0.15, 32, True, 0.1), (0.2, 1, True, 0.12), (1.2, 1, True, 0.6)),
    ],
)
def test_the_rate_of_exact_gradients_is_a_share_of_the_walk(
    walk: float, batch_size: int, lost: bool, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Takes 0.6 W whatever the minibatch, but 0.6 LSB at most, and at least 0.1 LSB if there is nothing to keep."""
    monkeypatch.setattr(RandomWalks, "forgotten", lambda _, found: 0.5 * (found / walk) ** 2)
    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    own, (x, y) = Trainer(MODELS["small_cnn"](), algorithms.exact(batch_size=batch_size), "litert"), data()
    # Other classes than its guesses are wrong throughout.
    own.fit(x, (y + lost) % 4, steps=1, keep="last")
    assert own.measured_rate == rate


def test_a_lost_network_is_not_measured_for_a_small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walks would leave no steps."""
    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    own, (x, _) = Trainer(MODELS["small_cnn"](), algorithms.exact(), "litert"), data()
    wrong = (own.predict(x).argmax(1) + 1) % 4
    walks = NodeWalks(own.runtime, own.model, own.settings, prepare(own.runtime, x, wrong))
    budget = 0.9 * walks.most(7)  # seven lengths are tried at most
    history = own.fit(x, wrong, budget=budget, keep="last")
    assert own.measured_rate == 0.1
    # All but the losses and outputs of the watched samples is left for steps.
    assert budget - 2 * SAMPLES < history.equivalents <= budget and own.step > 0.8 * budget / 3


@pytest.mark.parametrize(("answer", "share"), [(3.0, 0.0), (2.0, 1.0)])
def test_a_network_of_one_answer_has_forgotten_all_if_it_changes(
    answer: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share has no spread that it can refer to."""
    own = trainer()
    walks = NodeWalks(own.runtime, own.model, own.settings, prepare(own.runtime, *data()))
    monkeypatch.setattr(RandomWalks, "_outputs", lambda _: np.full((SAMPLES, 4), 3.0))
    walks.begin()
    assert not walks.knows
    monkeypatch.setattr(RandomWalks, "_outputs", lambda _: np.full((SAMPLES, 4), answer))
    assert walks.forgotten(1.0) == share


@pytest.mark.parametrize("kind", [algorithms.node, algorithms.weight])
def test_what_measuring_costs_comes_out_of_the_budget(kind: Any) -> None:
    own, told = (
        Trainer(MODELS["small_cnn"](), kind(batch_size=BATCH, **given), "litert")
        for given in ({}, {"learning_rate": 0.5})
    )
    histories = [t.fit(*data(), budget=2_500, keep="last") for t in (own, told)]
    assert own.measured_rate is not None
    assert own.planned < told.planned
    assert all(2_400 < h.equivalents <= 2_500 for h in histories)


def test_a_budget_that_would_hardly_pay_for_the_measurement_is_for_steps_alone() -> None:
    own, told = trainer(), trainer(learning_rate=1.0)
    histories = [t.fit(*data(), budget=200, keep="last") for t in (own, told)]
    assert own.measured_rate is None
    assert histories[0].equivalents == histories[1].equivalents
    assert all(np.array_equal(w, told.runtime.read_weights()[n]) for n, w in weights_of(own).items())


@pytest.mark.parametrize(
    ("settings", "measures"),
    [
        (algorithms.node(), True),
        (algorithms.node(learning_rate=1.0), False),
        (algorithms.elastic_zo(), True),
        (algorithms.elastic_zo_int8(), False),
        (algorithms.poor_mans_training(), False),
        (algorithms.fqt(), False),
        (algorithms.weight(), True),
        (algorithms.weight(learning_rate=1.0), False),
        (algorithms.layer(), True),
        (algorithms.qzo_ff(), True),
        (algorithms.mezo(), False),
        (algorithms.deepzero(), False),
        (Settings(tasks=(Weights(rule=Gradient()),)), False),
        (Settings(tasks=(Weights(perturbation=Coordinate(2)),)), False),
        (Settings(tasks=(Nodes(rule=Gradient()),)), False),
        (Settings(tasks=(Weights(scope="layers"),)), True),
    ],
)
def test_who_measures(settings: Settings, measures: bool) -> None:
    assert settings.measures_rate == measures


def test_a_final_rate_above_the_measured_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomWalks, "forgotten", lambda _, found: 0.6 * found**2)
    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    with pytest.raises(SettingsError, match=r"`schedule\.final` must be at most 0\.052, the rate that was measured"):
        trainer(schedule=Linear(0.9)).fit(*data(), steps=2)


@pytest.mark.parametrize(("share", "expected"), [(0.24, 1.0), (0.26, 0.0039)])
def test_a_network_whose_outputs_hardly_differ_has_nothing_to_forget(
    monkeypatch: pytest.MonkeyPatch, share: float, expected: float
) -> None:
    """Outputs 1 +- d with d^2 = share / (1 - share) have this share of their mean square as spread."""
    deviation = math.sqrt(share / (1 - share))
    outputs = np.array([1 + deviation, 1 - deviation] * (SAMPLES // 2))[:, None]
    monkeypatch.setattr(RandomWalks, "_outputs", lambda _: outputs)
    monkeypatch.setattr(RandomWalks, "forgotten", lambda _, walk: 0.5 * (walk / 0.25) ** 2)
    own = trainer()
    own.fit(*data(), steps=1, keep="last")
    assert own.measured_rate == expected


def test_firmware_has_the_rate_that_training_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures with its samples; a device whose samples are not known takes 1 LSB."""
    monkeypatch.setattr(RandomWalks, "forgotten", lambda _, walk: 0.5 * (walk / 0.6) ** 2)
    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    own = trainer("litert")
    own.fit(*data(), steps=40, keep="last")
    assert own.measured_rate == 0.022
    given = prepare(own.runtime, *data())
    for samples, expected in ((given, own.measured_rate), (None, 1.0)):
        made = generate_firmware(own.model, own.settings, steps=40, samples=SAMPLES, data=samples)
        assert f"/* rate */ {round(expected * 65536)}u," in made.files["model_zo_model.cc"]


@pytest.mark.parametrize(("classes", "expected"), [(0, 0.0039), (1, 1.0)])
def test_a_network_that_is_wrong_throughout_has_nothing_to_keep(
    monkeypatch: pytest.MonkeyPatch, classes: int, expected: float
) -> None:
    """Labels are its own guesses, or other classes than these, which a confident network has not."""
    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    monkeypatch.setattr(RandomWalks, "forgotten", lambda _, walk: 0.5 * (walk / 0.25) ** 2)
    own, (x, y) = trainer(), data()
    other = (y + classes) % 4
    shares = np.unique(other, return_counts=True)[1] / SAMPLES
    loss, guess = own.evaluate(x, other)["loss"], float(-(shares * np.log(shares)).sum())
    assert (loss > 2 * guess) == bool(classes)
    own.fit(x, other, steps=1, keep="last")
    assert own.measured_rate == expected
