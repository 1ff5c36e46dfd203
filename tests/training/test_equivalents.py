"""Forward equivalents: the budget of a run, and its costs."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.moments import At, stop
from helpers.runs import random_samples
from helpers.weight_runs import SETTINGS, X, Y, zo_model
from tflm_zo.core import NodeControl
from tflm_zo.runtime.lane import Lanes
from tflm_zo.training import Nodes, Settings, Trainer, Weights, random_walks

STEPS = 17
WEIGHT = dataclasses.replace(SETTINGS, learning_rate=1.0)  # measures none
# small_cnn: 2,304 MACs of conv and 256 of fc, which alone has fewer nodes than weights. Its nodes are the
# last ones, so that a query costs nothing and there are 32 of them.
NODE_STEP = 8 * (0.1 + 0.1)


def node_cost(steps):
    """Computes forward equivalents; conv is run once for each of the 24 samples in use."""
    return min(24, 8 * steps) * 0.9 + steps * NODE_STEP


@pytest.mark.parametrize("name", ["weight", "node", "blocks"])
def test_budget(name):
    """Takes as many steps as it allows, and not one more."""
    if name == "node":
        trainer = Trainer(zo_model(nodes="auto"), Settings(batch_size=8, learning_rate=1.0))
        cost = node_cost
    elif name == "weight":
        trainer, cost = Trainer(zo_model(), WEIGHT), lambda steps: steps * 2 * 2 * 8
    else:  # one of conv and fc, in turn; fc's suffix is a tenth, and a step's first pass is whole
        trainer = Trainer(
            zo_model("cut", batch=8), Settings(tasks=(Weights(scope="blocks"),), batch_size=8, learning_rate=1.0)
        )
        cost = lambda steps: 8 * (steps + (steps + 1) // 2 + 0.1 * (steps // 2))  # noqa: E731
    for steps in (2, 10):
        exact = cost(steps)
        history = trainer.fit(X, Y, budget=exact + 1e-6, keep="last")
        assert len(history.steps) == trainer.step == steps
        assert history.equivalents == trainer.equivalents == pytest.approx(exact)
        trainer.fit(X, Y, budget=cost(steps + 2) - 1e-6, keep="last")
        assert trainer.step == steps + 1
    with pytest.raises(ValueError, match="`budget` must be at least"):
        trainer.fit(X, Y, budget=1, keep="last")
    for given in ({"budget": 100, "steps": 3}, {"epochs": 1, "steps": 5}, {"epochs": 2, "budget": 100}):
        with pytest.raises(ValueError, match="must be the only length of the run"):
            trainer.fit(X, Y, **given, keep="last")
    for budget in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="`budget` must be forward equivalents above 0"):
            trainer.fit(X, Y, budget=budget, keep="last")


@pytest.mark.parametrize("name", ["weight", "node"])
def test_equivalents_are_of_the_run_and_of_this_part_of_it(name, tmp_path):
    nodes = name == "node"
    model = zo_model(nodes="auto") if nodes else zo_model()
    settings = Settings(batch_size=8, learning_rate=1.0, seed=9) if nodes else WEIGHT
    cost = node_cost if nodes else lambda steps: 32 * steps
    first = Trainer(model, settings)
    assert first.equivalents == 0
    history = first.fit(X, Y, steps=STEPS, log=tmp_path / "log", callbacks=[At(6, stop)], keep="last")
    assert history.equivalents == first.equivalents == pytest.approx(cost(7))
    second = Trainer(model, settings)
    history = second.fit(X, Y, steps=STEPS, log=tmp_path / "log", resume=True, keep="last")
    assert second.equivalents == pytest.approx(cost(STEPS))
    assert history.equivalents == pytest.approx(cost(STEPS) - cost(7))
    assert history.history["equivalents"][-1] == second.equivalents
    again = second.fit(X, Y, steps=3, keep="last")
    assert again.equivalents == second.equivalents == pytest.approx(cost(3))


CONV, FC = 8 * 8 * 4 * 9, 4 * 4 * 4 * 4


@pytest.mark.parametrize("forgets_half_after", slow_but([5.0], [0.1, 5.0, 100.0]))
@pytest.mark.parametrize("length", [{"steps": 3}, {"budget": 4000}], ids=["steps", "budget"])
@pytest.mark.parametrize(
    "task, model",
    [
        (Weights(queries=2), {"name": "cut"}),
        (Weights(scope="blocks"), {"name": "cut"}),
        (Weights(scope="blocks", queries=2), {"name": "cut", "batch": 8}),
        (Nodes(queries=2), {"nodes": "auto"}),
    ],
    ids=["model", "blocks, parts", "blocks", "nodes"],
)
def test_what_measuring_the_rate_takes_is_counted(
    task: Any, model: Any, length: dict[str, int], forgets_half_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts every segment that runs, for measuring and for steps, and every update of fc: to the last product."""
    trainer = Trainer(zo_model(**model), Settings(tasks=(task,), batch_size=8))
    # fc's input, its output and the loss are where segments begin, or pool's output.
    macs = [CONV, FC, 0][: trainer.runtime.segment_count]
    done = {"products": 0, "measured": 0}
    run, update, forgotten = Lanes.run, NodeControl.update, random_walks.RandomWalks.forgotten

    def counted_run(lane: Any, samples: int, start: int, stop: int, fed: Any) -> Any:
        done["products"] += samples * sum(macs[start:stop])
        return run(lane, samples, start, stop, fed)

    def counted_update(self: NodeControl, tensors: Any) -> Any:
        done["products"] += 8 * FC
        return update(self, tensors)

    def told(self: Any, walk: float) -> float:
        forgotten(self, walk)
        done["measured"] += 1
        return 0.5 * (walk / forgets_half_after) ** 2

    monkeypatch.setattr(Lanes, "run", staticmethod(counted_run))
    monkeypatch.setattr(NodeControl, "update", counted_update)
    monkeypatch.setattr(random_walks.RandomWalks, "forgotten", told)
    monkeypatch.setattr(random_walks, "_LEAST_SPREAD", 0.0)
    monkeypatch.setattr(random_walks, "_MOST_LOSS", np.inf)
    x, y = random_samples(5, 32)  # as many as one invoke of an evaluation takes
    history = trainer.fit(x, y, **length, keep="last")
    assert done["measured"] >= 1
    assert trainer.measured_rate is not None
    assert trainer.equivalents == history.equivalents
    assert history.equivalents == pytest.approx(done["products"] / (CONV + FC), rel=1e-12)
    if "budget" in length:
        step = NODE_STEP if isinstance(task, Nodes) else 8 * 2 * task.queries
        assert 4000 - step < history.equivalents <= 4000 or trainer.step == trainer.planned
