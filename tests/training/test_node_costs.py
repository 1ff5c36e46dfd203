"""Costs of runs, against multiply-accumulates counted by hand and by watching the runtime; and budgets."""

from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS, lenet5
from helpers.runs import weight_settings
from tflm_zo.converters import Model, read_metadata
from tflm_zo.training import Exact, Nodes, Settings, Trainer
from tflm_zo.training.costs import RunCosts, SampleCosts, run_costs
from tflm_zo.training.plan import LoweredTask, plan_tasks

# LeNet-5: outputs x weights of each.
CONV1, CONV2 = 28 * 28 * 6 * 25, 10 * 10 * 16 * 150
FC1, FC2, FC3 = 400 * 120, 120 * 84, 84 * 10
WHOLE = CONV1 + CONV2 + FC1 + FC2 + FC3


def costs_of(model: Model, settings: Settings) -> RunCosts:
    return run_costs(settings, model, read_metadata(model))


def tasks_of(model: Model, settings: Settings) -> list[LoweredTask]:
    metadata = read_metadata(model)
    return plan_tasks(settings, metadata, SampleCosts(model, metadata).suffix)


def queries_of(model: Model, settings: Settings) -> list[int]:
    """Returns queries of each layer with nodes."""
    tasks = tasks_of(model, settings)
    return [next(t.queries for t in tasks if t.nodes == nodes) for nodes in read_metadata(model).nodes]


def test_queries_that_cost_a_tenth_of_a_forward_pass() -> None:
    model = inject_all(lenet5(), nodes="auto")
    # FC3 / WHOLE is 1 / 495.9: 24 pairs of them are just below a tenth.
    assert 24 * 2 * FC3 <= 0.1 * WHOLE < 25 * 2 * FC3
    exact, chosen = Settings(tasks=(Nodes(), Exact())), Settings(tasks=(Nodes(queries={"fc2": 7, "fc3": 1}),))
    assert queries_of(model, Settings()) == [2, 2, 24, 32]
    assert queries_of(model, exact) == [2, 2, 24, 0]
    assert queries_of(model, chosen) == [2, 2, 7, 1]
    # Nothing that multiplies is re-run behind the head.
    assert costs_of(model, Settings()).until(1, 0) == costs_of(model, exact).until(1, 0)


@pytest.mark.parametrize(
    "changes, samples",
    [
        ({}, 16 * 2),
        ({"queries": 3}, 16 * 6),
        ({"queries": 3, "estimator": "one-sided"}, 16 * 4),
    ],
)
def test_a_step_of_weight_perturbation(changes: dict[str, Any], samples: int) -> None:
    model = inject_all(lenet5(), batch=4)
    costs = costs_of(model, weight_settings(batch_size=16, **changes))
    assert costs.until(0, 100) == 0
    assert costs.until(7, 100) == pytest.approx(7 * samples)


# --- executed invokes ---------------------------------------------------------------------------------------


SAMPLES = 12
SMALL = inject_all(MODELS["small_cnn"](), nodes="*", batch=4)
HEAD = inject_all(MODELS["small_cnn"](), nodes="fc", batch=4)
X = np.random.default_rng(1).integers(-128, 128, (SAMPLES, 8, 8, 1)).astype(np.int8)
Y = np.random.default_rng(2).integers(0, 4, SAMPLES)


TASKS: dict[str, Any] = {"zo": (Nodes(queries=3),), "exact": (Nodes(queries=3), Exact())}


@pytest.mark.parametrize("model, prefix", [(SMALL, 0), (HEAD, 8 * 8 * 4 * 9)], ids=["whole", "head"])
@pytest.mark.parametrize("head", ["zo", "exact"])
@pytest.mark.parametrize("steps", [1, 5])  # of 8 of 12 samples
def test_what_the_runtime_runs(
    model: Model, prefix: int, head: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watches segments as they run: `equivalents` is their multiply-accumulates and those of updates."""
    trainer = Trainer(model, Settings(tasks=TASKS[head], batch_size=8, learning_rate=1.0))
    conv, fc = 8 * 8 * 4 * 9, 4 * 4 * 4 * 4
    of_segment = {2: [conv, fc, 0], 4: [conv, 0, fc, 0]}
    macs = of_segment[4] if len(trainer.runtime.metadata.segments) == 4 else [conv, fc, 0]
    done, passes = [0], [0]
    original = type(trainer.runtime).invoke

    def invoke(runtime: Any, command: Any = None, **options: Any) -> None:
        original(runtime, command, **options)
        learning = options.get("stop") is not None or options.get("checked", False)
        if learning:  # not the invoke that sets the model's initial weights
            entering = options.get("boundary")
            samples = 4  # or the input of several evaluations at once
            if entering is not None:
                samples = len(next(iter(entering.values())) if isinstance(entering, dict) else entering)
            done[0] += samples * sum(macs[options.get("start", 0) : options.get("stop")])
            passes[0] += samples * ("stop" not in options)

    monkeypatch.setattr(type(trainer.runtime), "invoke", invoke)
    history = trainer.fit(X, Y, steps=steps, keep="last")
    updates = steps * 8 * (fc + (conv / 4 if prefix == 0 else 0))
    assert trainer.equivalents == pytest.approx((done[0] + updates) / (conv + fc))
    assert history.equivalents == trainer.equivalents
    assert history.forwards == trainer.forwards == passes[0]
    queried = (len(trainer.runtime.metadata.nodes) - (head == "exact")) * 2 * 3
    assert history.forwards == steps * 8 * (1 + queried)


@pytest.mark.parametrize("steps, expected", [(1, 2), (2, 4), (3, 6), (6, 12), (40, 13)])
def test_the_prefix_runs_for_samples_that_are_used(steps: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs it once for each of them: few steps on many samples take no longer than on few."""
    x, y = np.tile(X, (5, 1, 1, 1))[:51], np.tile(Y, 5)[:51]
    trainer = Trainer(HEAD, Settings(tasks=(Nodes(queries=1),), batch_size=8, learning_rate=1.0))
    original, prefixes = type(trainer.runtime).invoke, [0]

    def invoke(runtime: Any, *arguments: Any, **options: Any) -> None:
        original(runtime, *arguments, **options)
        prefixes[0] += "stop" in options

    monkeypatch.setattr(type(trainer.runtime), "invoke", invoke)
    trainer.fit(x, y, steps=steps, keep="last")
    assert prefixes[0] == expected  # of four samples each


# --- budgets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [SMALL, HEAD], ids=["whole", "head"])
def test_a_budget_is_used_up(model: Model) -> None:
    settings = Settings(tasks=(Nodes(queries=1),), batch_size=4, learning_rate=1.0)
    costs = costs_of(model, settings)
    for steps in (1, 2, 9):
        cost = costs.until(steps, SAMPLES)
        for budget, expected in ((cost, steps), (cost + 0.5, steps), (costs.until(steps + 1, 12) - 0.01, steps)):
            trainer = Trainer(model, settings)
            history = trainer.fit(X, Y, budget=budget, keep="last")
            assert len(history.steps) == expected
            assert history.equivalents == pytest.approx(cost) and history.equivalents <= budget
            # The schedule knows how many steps there are.
            same = Trainer(model, settings).fit(X, Y, steps=expected, keep="last")
            assert same.steps == history.steps
