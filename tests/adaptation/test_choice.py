"""The choice of the way to train: held-out parts, trials, and the run of the winner on all samples."""

import dataclasses
import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tflm_zo as zo
from helpers.commands import invoke
from helpers.models import MODELS
from tflm_zo.adaptation.choice import Candidate, Choice, Contest, Trial, groups_of
from tflm_zo.adaptation.parts import Parts, overlap
from tflm_zo.adaptation.recipe import Observer
from tflm_zo.adaptation.starts import Start
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.converters.grow_classes import grow_classes
from tflm_zo.data import Data, DataError
from tflm_zo.planner.ways import ways
from tflm_zo.training import Trainer, algorithms

LOSS = read_metadata(zo.inject(load_model(MODELS["small_cnn"]()))).known_loss


def samples(labels: Any, x: Any = None) -> Data:
    labels = np.asarray(labels, np.int32)
    return Data([np.zeros((len(labels), 2), np.int8) if x is None else x], labels)


def learnable(seed: int, count: int) -> tuple[Any, Any]:
    """Samples whose class is their brightest quarter."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-100, 0, (count, 8, 8, 1)), rng.integers(0, 4, count)
    for image, label in zip(x, y, strict=True):
        image[4 * (label // 2) :][:4, 4 * (label % 2) :][:, :4] += 120
    return x.astype(np.int8), y.astype(np.int32)


# --- parts ------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.integers(-1, 3), min_size=6, max_size=400))
def test_each_class_is_in_all_parts_alike(labels: list[int]) -> None:
    data = samples(labels)
    parts = Parts.divide(data, LOSS)
    assert ((parts.of >= 0) == (data.labels >= 0)).all()
    for label in range(4):
        counts = np.bincount(parts.of[data.labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1
    for train, judged in parts.pairs(data):
        assert len(train) + len(judged) == len(data) and (judged.labels >= 0).all()


@settings(max_examples=60)
@given(st.lists(st.integers(0, 7), min_size=2, max_size=300))
def test_groups_stay_whole(groups: list[int]) -> None:
    data = samples(np.arange(len(groups)) % 4)
    parts = Parts.divide(data, LOSS, groups)
    if len(set(groups)) > 1:
        assert parts.by == "group"
        assert all(len(set(parts.of[np.equal(groups, g)])) == 1 for g in set(groups))
        assert list(parts.pairs(data))


def test_groups_of_another_length() -> None:
    with pytest.raises(DataError, match="`groups` must have one value for each of 8 samples"):
        Parts.divide(samples([0] * 8), LOSS, [1, 2])


@pytest.mark.parametrize("stride", [1, 5, 10])
def test_windows_that_overlap_are_held_out_in_a_row(stride: int) -> None:
    recording = np.random.default_rng(0).integers(-128, 128, (600, 3)).astype(np.int8)
    x = np.stack([recording[i : i + 10] for i in range(0, 500, stride)])
    data = samples(np.arange(len(x)) * 4 // len(x), x)
    assert overlap(data) == (stride < 10)
    parts = Parts.divide(data, LOSS)
    assert parts.by == ("time" if stride < 10 else "chance")
    if stride < 10:
        for label in range(4):
            of = parts.of[data.labels == label]
            assert (np.diff(of) >= 0).all()


def test_few_samples_are_held_out_more_often() -> None:
    used = [Parts.divide(samples([0, 1] * (n // 2)), LOSS).used for n in (60, 200, 1000)]
    assert used == sorted(used, reverse=True) and used[-1] == 1


# --- trials -----------------------------------------------------------------------------------------------


def trial(losses: Any, hits: Any = None, steps: int = 1) -> Trial:
    model = load_model(MODELS["small_cnn"]())
    candidate = Candidate(Start(model), None, algorithms.exact(), {})
    return Trial(candidate, steps, np.array(losses, float), None if hits is None else np.array(hits, float))


def test_standard_errors_are_of_paired_losses() -> None:
    """Large losses of some samples in both trials say nothing about the difference."""
    hard = np.array([0.0, 50.0, 0.0, 90.0])
    assert trial(hard).beats(trial(hard + [1.0, 1.1, 0.9, 1.0]), 2.0)
    noisy = trial(hard + [3.0, -2.0, 2.0, -2.0])
    assert trial(hard).beats(noisy) and not trial(hard).beats(noisy, 1.0)


def test_harm_is_more_than_chance() -> None:
    right, wrong = np.ones(40), np.zeros(40)
    before = trial(right, right, steps=0)
    for lost, harms in ((0, False), (2, False), (3, True), (40, True)):
        hits = np.where(np.arange(40) < lost, wrong, right)
        assert trial(right, hits).harms(before) == harms
        assert trial(right + 1 - hits).harms(trial(right)) == harms
    noise = np.random.default_rng(0).normal(size=40)
    assert not trial(right + noise - noise.mean() + 0.01).harms(before)


# --- runs -------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("p.tflite")
    path.write_bytes(MODELS["small_cnn"]())
    return path


def test_the_winner_trains_on_all_samples(model: Path) -> None:
    x, y = learnable(0, 80)
    found = zo.adapt(model, x, y, log="run.zolog", zo_model="run.zo.tflite")
    assert found.choice is not None and found.parts is not None and found.choice.trains
    assert len(found.data.train) == 80 and found.data.validation is None
    assert found.before == found.choice.before.values and found.after == found.choice.best.values
    assert found.choice.before.steps == 0
    least = min(t.loss for t in found.choice.trials if t.steps == found.choice.best.steps)
    assert found.choice.best.loss == least
    before, after = (zo.evaluate(m, *learnable(1, 200)) for m in (model, found.model))
    assert after.loss < before.loss
    done = invoke("replay", "run.zo.tflite", "run.zolog", "-o", "again.tflite")
    assert done.exit_code == 0, done.output
    assert Path("again.tflite").read_bytes() == found.model.to_bytes()


def test_nothing_that_is_worse_is_handed_over(model: Path) -> None:
    """The samples have the answers that the model gives, with room for doubt alone."""
    x, _ = learnable(0, 60)
    y = Trainer(model).predict(x).argmax(1)
    with mock.patch.object(Trial, "harms", lambda self, other: self.steps > 0):
        found = zo.adapt(model, x, y, steps=5, log="run.zolog", zo_model="run.zo.tflite")
    assert not found.is_trained and found.is_unchanged and not found.is_worse
    assert found.model.to_bytes() == load_model(model).to_bytes()
    assert not Path("run.zolog").exists() and not Path("run.zo.tflite").exists()
    assert found.choice is not None
    tried = {t.candidate.rung for t in found.choice.trials}
    assert tried == {"no training", "exact gradients", "nodes", "last layer, exact", "weights", "biases"}


def test_forward_passes_alone(model: Path) -> None:
    found = zo.adapt(model, *learnable(0, 60), steps=20, forward_only=True)
    assert found.choice is not None
    assert "exact gradients" not in {t.candidate.rung for t in found.choice.trials}


def too_small(model: Path) -> int:
    """The largest RAM that exact gradients of all layers do not fit."""
    return min(cost.ram for cost in zo.plan(model, ram=1).costs if cost.way.name == "exact gradients") - 1


@pytest.mark.parametrize("network", ["small_cnn", "depthwise_separable", "residual"])
def test_rungs_are_tried_together_where_the_highest_does_not_fit(network: str) -> None:
    ladder = ways(load_model(MODELS[network]()))
    first, *rest = groups_of(ladder)
    assert [way.name for way in first] == ["exact gradients"]
    assert [[way.name for way in group] for group in rest] == [["nodes"], ["last layer, exact", "weights", "biases"]]
    limited = groups_of([way for way in ladder if way.name != "exact gradients"])
    parts = [way for way in ladder if way.name.startswith("exact, last")]
    if parts:
        names = [[way.name for way in group] for group in limited]
        assert names == [list(dict.fromkeys(way.name for way in ladder if way.name != "exact gradients"))]
    assert all(way.update_bits == 16 for group in (first, *rest, *limited) for way in group)


def test_weights_are_tried_beside_errors_that_reach_few() -> None:
    ladder = ways(load_model(MODELS["small_cnn"]()))
    whole = next(way for way in ladder if way.name == "weights").trained.weights
    for reached, names in ((whole // 2 - 1, ["weights", "exact gradients"]), (whole // 2 + 1, ["exact gradients"])):
        few = [
            dataclasses.replace(way, trained=dataclasses.replace(way.trained, weights=reached))
            if way.name == "exact gradients"
            else way
            for way in ladder
        ]
        first, *rest = groups_of(few)
        assert [way.name for way in first] == names
        assert sorted(way.name for group in (first, *rest) for way in group) == sorted(
            {way.name for way in few if not way.name.startswith("exact, last")}
        )


def test_the_way_fits_the_device(model: Path) -> None:
    x, y = learnable(0, 60)
    limit = too_small(model)
    found = zo.adapt(model, x, y, ram=limit, log="run.zolog", zo_model="run.zo.tflite")
    assert found.choice is not None and found.cost is not None
    tried = {t.candidate.rung for t in found.choice.trials} - {"no training"}
    assert tried and tried <= {cost.way.name for cost in zo.plan(model, ram=limit).costs if cost.ram <= limit}
    assert found.cost.ram <= limit and found.cost.way is found.choice.best.candidate.way
    told = json.loads(invoke("firmware", "run.zo.tflite", "-o", "firmware", "--json").stdout)
    parts = ("arena", "workspace", "objects", "stack", "library")
    assert sum(told[f"{part}_bytes"] for part in parts) == found.cost.ram
    assert told["steps"] == found.trainer.step


def test_an_algorithm_takes_its_first_way_that_fits(model: Path) -> None:
    x, y = learnable(0, 60)
    whole = zo.adapt(model, x, y, "node", steps=3).trainer
    least = min(c.ram for c in zo.plan(model).costs if c.way.name == "nodes")
    found = zo.adapt(model, x, y, "node", ram=least, steps=3)
    assert found.choice is None and found.cost is not None and found.cost.ram <= least
    assert (whole.settings.batch_size, found.trainer.settings.batch_size) == (8, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ram": 4000}, "`ram` must be at least [0-9,]* bytes for biases. Received: 4000"),
        ({"board": "none"}, "`board` must be one of"),
        ({"ram": 65536, "settings": algorithms.node()}, "`ram` must be left out, since the settings are given"),
        ({"ram": 65536, "settings": "mezo"}, "`algorithm` must be one of exact, node, weight of the ways"),
        ({"forward_only": True, "settings": "exact"}, "`algorithm` must be one of node, weight of the ways"),
    ],
)
def test_devices_that_are_refused(model: Path, given: Any, said: str) -> None:
    with pytest.raises(zo.SettingsError, match=said):
        zo.adapt(model, *learnable(0, 60), **given)


@pytest.mark.parametrize("limited", [False, True])
def test_a_resumed_run_keeps_its_choice(model: Path, limited: bool) -> None:
    x, y = learnable(0, 60)
    ram = too_small(model) if limited else None
    whole = zo.adapt(model, x, y, ram=ram, log="run.zolog", zo_model="run.zo.tflite")
    content = Path("run.zolog").read_bytes()
    Path("run.zolog").write_bytes(content[: len(content) * 2 // 3])
    with mock.patch.object(Contest, "run", side_effect=AssertionError):
        with pytest.raises(zo.SettingsError, match="`ram` must be that of the resumed run"):
            zo.adapt(model, x, y, ram=12345, log="run.zolog", zo_model="run.zo.tflite", resume=True)
        again = zo.adapt(model, x, y, ram=ram, log="run.zolog", zo_model="run.zo.tflite", resume=True)
    assert Path("run.zolog").read_bytes() == content
    assert again.model.to_bytes() == whole.model.to_bytes()


def test_a_resumed_run_begins_with_the_same_class_means(model: Path) -> None:
    grow_classes(load_model(model), LOSS.elements + 1).save("grown.tflite")
    x, y = learnable(0, 60)
    y[:9] = LOSS.elements
    files: Any = {"log": "run.zolog", "zo_model": "run.zo.tflite"}
    whole = zo.adapt("grown.tflite", x, y, steps=30, **files)
    assert whole.choice is not None and whole.choice.best.candidate.start.has_class_means
    content = Path("run.zolog").read_bytes()
    Path("run.zolog").write_bytes(content[: len(content) * 2 // 3])
    with mock.patch.object(Contest, "run", side_effect=AssertionError):
        again = zo.adapt("grown.tflite", x, y, steps=30, resume=True, **files)
    assert Path("run.zolog").read_bytes() == content
    assert again.model.to_bytes() == whole.model.to_bytes()


def test_a_run_that_diverges_is_repeated(model: Path) -> None:
    """The trials had no loss at all, so that of the run on all samples is a disaster at each rate."""
    rates = list[float]()

    class Seen(Observer):
        def on_diverged(self, rate: float) -> None:
            rates.append(rate)

    run = Contest.run

    def without_loss(self: Contest, *given: Any) -> Choice | None:
        found = run(self, *given)
        assert found is not None
        trained = next(t for t in reversed(found.trials) if t.steps)
        before, best = (dataclasses.replace(t, losses=0 * t.losses) for t in (found.before, trained))
        return dataclasses.replace(found, before=before, best=best)

    with mock.patch.object(Contest, "run", without_loss):
        found = zo.adapt(model, *learnable(0, 60), steps=9, observer=Seen(), log="run.zolog", zo_model="run.zo.tflite")
    assert len(rates) == 3 and [rates[0] / r for r in rates] == [1, 4, 16]
    assert found.is_worse
