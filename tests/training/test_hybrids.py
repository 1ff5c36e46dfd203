"""Runs of several tasks: the same bits everywhere, and the costs and effects of a step."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import lenet5
from helpers.moments import At, interrupt
from helpers.nodes import perturb_nodes
from helpers.oracle.control import sample_at
from helpers.oracle.scalar import query_seed
from helpers.runs import layerwise_settings
from tflm_zo import inject
from tflm_zo.converters import read_metadata
from tflm_zo.core import Coordinate, Rademacher, SparseUniform
from tflm_zo.runtime import Runtime
from tflm_zo.training import Constant, Nodes, Settings, Trainer
from tflm_zo.training.plan import node_layer
from tflm_zo.training.rules import Gradient
from tflm_zo.training.settings import SettingsError

RNG = np.random.default_rng(7)
X = RNG.integers(-128, 128, (24, 28, 28, 1)).astype(np.int8)
Y = RNG.integers(0, 10, 24).astype(np.int32)
LAST = {"trainable": "all", "nodes": ("fc2", "fc3"), "headroom": 7}
TAIL = {"trainable": "all", "tail": 2, "headroom": 7}
HYBRIDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "together and an exact tail": (TAIL, {"weights.scope": "model", "exact.last": 2, "weights.learning_rate": 0.5}),
    "each layer, nodes and weights": (
        {"trainable": "all", "nodes": "auto"},
        {
            "weights.scope": "layers",
            "estimator": "one-sided",
            "nodes.queries": 3,
            "weights.queries": 3,
            "nodes.perturbation": 1,
        },
    ),
    "gradients of both": (
        {"trainable": "all", "nodes": "auto", "update_bits": 8},
        {
            "weights.scope": "layers",
            "estimator": "one-sided",
            "nodes.rule": "gradient",
            "nodes.gradient_norm": True,
            "nodes.quantization_aware": True,
            "weights.rule": "gradient",
            "weights.gradient_norm": True,
            "weights.quantization_aware": True,
            "learning_rate": 0.05,
            "weights.perturbation": Rademacher(1),
            "nodes.perturbation": 1,
        },
    ),
    "sparser from stage to stage": (
        LAST,
        {
            "weights.scope": "model",
            "weights.rule": "sign",
            "weights.perturbation": SparseUniform(7, 0.33),
            "stages": (0.3, 0.6),
            "weights.stage_p_zero": (0.5, 0.9),
        },
    ),
    "ElasticZO-INT8": (
        {**TAIL, "update_bits": 8, "headroom": 15},
        {
            "weights.scope": "model",
            "exact.last": 2,
            "exact.rule": "bits",
            "weights.rule": "bits",
            "weights.perturbation": SparseUniform(15, 0.33),
            "stages": (0.3, 0.6),
            "weights.stage_p_zero": (0.5, 0.9),
        },
    ),
    "standardized, of few rows": (
        {"tail": 2, "trainable": "nodes"},
        {"exact.last": 2, "exact.rule": "standardized", "exact.rows": (0.1, 0.5)},
    ),
    "clamped nodes, too": ({"nodes": "auto", "trainable": "nodes"}, {"nodes.masked": False}),
    "no nodes": ({"trainable": "all"}, {"weights.scope": "model", "weights.rule": "sign", "weights.queries": 2}),
}


def run(name: str, runtime: str, log: Any = None, *, rate: float | None = None, **fit: Any) -> tuple[Trainer, bytes]:
    injection, chosen = HYBRIDS[name]
    model = inject_all(lenet5(), batch=4, **injection)
    settings = layerwise_settings(**{"batch_size": 8, "snapshot_every": 2, "seed": 5, **chosen})
    if rate is not None:
        settings = dataclasses.replace(settings, learning_rate=rate)
    trainer = Trainer(model, settings, runtime=runtime)
    trainer.fit(X, Y, steps=6, log=log, **fit, keep="last")
    weights = trainer.runtime.read_weights()
    return trainer, b"".join(weights[t.name].tobytes() for t in trainer.runtime.metadata.trainable)


@pytest.mark.parametrize("name", slow_but(list(HYBRIDS)[::3], HYBRIDS))
def test_same_bits_in_tflm_and_after_an_interruption(name: str, tmp_path: Any) -> None:
    whole, weights = run(name, "litert", tmp_path / "a.zolog")
    _, again = run(name, "tflm", tmp_path / "b.zolog")
    assert again == weights
    logs = [(tmp_path / f"{x}.zolog").read_bytes() for x in "ab"]
    assert logs[0] == logs[1]
    initial = Trainer(inject_all(lenet5(), batch=4, **HYBRIDS[name][0])).runtime.read_weights()
    changed = [not np.array_equal(initial[n], w) for n, w in whole.runtime.read_weights().items()]
    assert all(changed)

    stopped, _ = run(name, "litert", tmp_path / "c.zolog", callbacks=[At(2, interrupt)])
    assert stopped.interrupted
    _, resumed = run(name, "litert", tmp_path / "c.zolog", resume=True)
    assert resumed == weights
    assert (tmp_path / "c.zolog").read_bytes() == logs[0]


def test_costs() -> None:
    """Counts forwards: each pass through a segment has its share in Costs."""
    trainer, _ = run("each layer, nodes and weights", "litert", rate=1.0)
    metadata = read_metadata(inject_all(lenet5(), batch=4, **HYBRIDS["each layer, nodes and weights"][0]))
    # conv1 alone carries no nodes: its queries run the whole network, those of nodes the suffix.
    conv1, conv2, fc1, fc2, fc3 = 117600, 240000, 48000, 10080, 840
    whole = conv1 + conv2 + fc1 + fc2 + fc3
    assert [t.layer for t in metadata.trainable if t.stream == 0] == ["conv1"]
    suffixes = (fc1 + fc2 + fc3) + (fc2 + fc3) + fc3 + 0
    updates = conv2 / 4 + fc1 + fc2 + fc3
    a_sample = whole + 3 * (suffixes + whole) + updates
    assert trainer.equivalents == pytest.approx(6 * 8 * a_sample / whole)


def gradient_of_the_paper(fresh: Runtime, zero_point: int) -> NDArray[np.float64]:
    """Computes equation 11 in float64, in LSB, for fc3 and the first step of a run with seed 3."""
    nodes = fresh.metadata.nodes[0]
    layer = node_layer(nodes)
    fresh.invoke(fresh.command(loss=False).restore())
    words = fresh.command().words
    order = [sample_at(3, 24, position) for position in range(8)]
    g = np.zeros((10, 84))
    for part in range(2):
        chosen = order[4 * part : 4 * part + 4]
        fresh.feed([X[chosen]], Y[chosen])
        fresh.invoke(words, checked=True)
        a = fresh.boundary(nodes.input_segment).astype(float).reshape(4, -1) - zero_point
        y = fresh.boundary(nodes.node_segment).copy()
        for seed in [query_seed(3, 0, q) for q in range(4)]:
            losses = []
            for k in (2, -2):
                at = perturb_nodes(layer, y, seed, k, first_sample=4 * part)
                fresh.invoke(words, start=nodes.node_segment, boundary=at, checked=True)
                losses.append(fresh.losses().astype(float) / 65536)
            d = losses[0] - losses[1]
            up = perturb_nodes(layer, np.zeros_like(y), seed, 1, first_sample=4 * part)
            z = up.astype(float).reshape(4, -1)
            g += np.einsum("b,bi,bj->ij", d / 4, z, a) / (8 * 4)
    return g


def test_gradients_are_those_of_the_paper() -> None:
    """Compares rule "gradient", a step of one dense layer, with equation 11 in float64."""
    model = inject(lenet5(), batch=4, nodes=("fc3",), trainable=("fc3",), headroom=2, replay=False)
    task = Nodes(rule=Gradient(gradient_norm=True, quantization_aware=True), perturbation=2, queries=4)
    settings_ = Settings(tasks=(task,), batch_size=8, learning_rate=0.02, schedule=Constant(), seed=3, step_clip=200.0)
    trainer = Trainer(model, settings_, runtime="litert")
    runtime, metadata = trainer.runtime, trainer.runtime.metadata
    name = metadata.trainable[0].name
    initial = runtime.read_weights()[name].astype(float)
    trainer.fit(X, Y, steps=1, keep="last")
    moved = runtime.read_weights()[name] + runtime.read_fractions()[name] / 256 - initial

    graph = model.subgraphs[metadata.trainable[0].segment]
    dense = next(op for op in graph.operators if op.inputs[1:2] and op.inputs[1].name == name)
    s_a, s_w, s_y = (
        np.asarray(t.quantization.scales, float) for t in (dense.inputs[0], dense.inputs[1], dense.outputs[0])
    )
    zero_point = int(dense.inputs[0].quantization.zero_points[0])
    fresh = Trainer(model, settings_, runtime="litert").runtime
    g = gradient_of_the_paper(fresh, zero_point)
    d_w = g * s_w.reshape(-1, 1) * s_a / s_y  # dL/dw per LSB
    factor = 32 / (32 + 10 - 1)
    wanted = -0.02 * factor * d_w / s_w.reshape(-1, 1) ** 2
    assert np.abs(wanted).max() > 1
    kept = np.clip(initial + wanted, -125, 125) - initial  # headroom
    np.testing.assert_allclose(moved, kept, atol=2 / 256, rtol=2e-3)


@pytest.mark.parametrize(
    ("injection", "chosen", "message"),
    [
        ({"nodes": ("fc3",)}, {"weights.scope": "model", "weights.perturbation": Rademacher(5)}, "headroom=5"),
        ({"nodes": ("fc3",)}, {"weights.scope": "model", "weights.rule": "bits"}, "update_bits=8"),
    ],
)
def test_bad_settings(injection: dict[str, Any], chosen: dict[str, Any], message: str) -> None:
    model = inject_all(lenet5(), **injection)
    with pytest.raises(SettingsError, match=message):
        Trainer(model, layerwise_settings(**chosen))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"stages": (0.5, 0.2)}, "rising"),
        (
            {"stages": (0.5,), "weights.stage_p_zero": (0.5, 0.9), "weights.perturbation": SparseUniform(3)},
            "one share of zeros",
        ),
        (
            {"stages": (0.5,), "weights.stage_p_zero": (0.5,)},
            r"`weights\.perturbation` must be SparseUniform where later stages have other shares of zeros",
        ),
        ({"exact.rows": (0.5, 0.1)}, "least share"),
        ({"exact.rule": "bits", "exact.bits": (5, 4)}, "three stages"),
        (
            {"weights.rule": "bits", "weights.perturbation": Coordinate(2)},
            r"`weights\.perturbation` must move all weights by rule bits\. Received: Coordinate\(2\)",
        ),
        ({"weights.rule": "bits", "weights.bits": 8}, r"`weights\.bits` must be an integer in 1\.\.7"),
        ({"weights.scope": "some"}, r"`scope` must be one of model, blocks, layers\. Received: 'some'"),
        ({"nodes.rule": "sign"}, r"`nodes\.rule` must be one of rms, gradient\. Received: 'sign'"),
    ],
)
def test_bad_values(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        layerwise_settings(**chosen)
