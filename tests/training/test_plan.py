"""How tasks are spread over layers that are known."""

from types import SimpleNamespace
from typing import Any

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import read_metadata
from tflm_zo.training import Exact, Nodes, Settings, Weights
from tflm_zo.training.plan import credited, exact_tail, plan_tasks
from tflm_zo.training.rules import Bits, Sign

METADATA = read_metadata(inject_all(MODELS["lenet5"](), nodes="fc3"))
LAYERS = [t.layer for t in METADATA.trainable]


def settings(*, others: Any = "model", exact: bool = False, layers: Any = None) -> Settings:
    tasks: list[Any] = [Nodes(queries=3)]
    if exact:
        tasks.append(Exact())
    if others is not None:
        # One query more for every layer in a group: that of the group is the largest one of its layers.
        queries = {name: 11 + i for i, name in enumerate(LAYERS)}
        tasks.append(Weights(scope=others, queries=queries))
    return Settings(tasks=tuple(tasks), layers=layers)


def plan(**changes: Any) -> list[Any]:
    return plan_tasks(settings(**changes), METADATA, lambda segment: 0.5)


def test_what_makes_a_run_layer_wise() -> None:
    """Its log has snapshots then; weights that are perturbed together can be replayed from seeds alone."""
    together = (Weights(), Weights(scope="blocks"), Weights(rule=Sign()))
    one_by_one = (Nodes(), Exact(), Weights(scope="layers"), Weights(rule=Bits()))
    assert not any(Settings(tasks=(task,)).is_layerwise for task in together)
    assert all(Settings(tasks=(task,)).is_layerwise for task in one_by_one)
    assert Settings(tasks=(Nodes(), Weights())).is_layerwise


def test_others_together_are_runs_of_consecutive_tensors() -> None:
    nodes = {n.trainable for n in METADATA.nodes}
    groups = [t.tensors for t in plan() if t.setting is Weights]
    assert sorted(i for g in groups for i in g) == [i for i in range(len(LAYERS)) if i not in nodes]
    for group in groups:
        assert group == tuple(range(group[0], group[-1] + 1))
    for a, b in zip(groups, groups[1:], strict=False):
        assert b[0] > a[-1] + 1
    assert [t.queries for t in plan() if t.setting is Weights] == [11 + max(g) for g in groups]
    a, b, c = sorted(set(range(len(LAYERS))) - nodes)[:3]
    chosen = plan(layers=(LAYERS[a], LAYERS[c]))
    assert b == a + 1 and [t.tensors for t in chosen] == [(a,), (c,)]


def test_frozen_others_are_left_out() -> None:
    assert [t.tensors for t in plan(others=None)] == [(n.trainable,) for n in METADATA.nodes]


def test_an_exact_head_takes_no_queries() -> None:
    (head,) = (t for t in plan(exact=True) if t.setting is Exact)
    assert head.queries == 0 and not head.in_tail and head.nodes is not None and head.nodes.head
    assert head.first_segment == head.nodes.input_segment
    assert exact_tail(settings(), METADATA.nodes) == []


def test_credited_outputs() -> None:
    geometry = {"out_h": 5, "out_w": 7, "node_h": 2, "node_w": 3}
    assert credited(SimpleNamespace(form="mean", geometry=geometry)) == 35  # type: ignore[arg-type]
    assert credited(SimpleNamespace(form="max_pool", geometry=geometry)) == 6  # type: ignore[arg-type]
