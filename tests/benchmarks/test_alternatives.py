"""Learners in C beside tflm_zo: their gradients, answers and memory, and the tables of their costs."""

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.models import MODELS
from tflm_zo.converters import load_model

FOLDER = Path(__file__).parents[2] / "benchmarks" / "alternatives"
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="NO gcc: NO LEARNER WAS BUILT")


@pytest.fixture
def alternatives(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports its modules as its scripts do."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("networks", "learners", "alternatives", "report"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import alternatives
    import learners
    import networks

    import report

    modules = (alternatives, learners, networks, report)
    return type("Alternatives", (), {module.__name__: module for module in modules})


def values(network: Any, weights: Any, x: Any) -> list[Any]:
    """Computes all activations in float64, [rows, columns, channels]."""
    found: dict[int, Any] = {0: x}
    at = 0
    for own in network.layers:
        read = found[own.inputs[0]].reshape(own.shapes[0])
        y = np.zeros(own.shapes[1])
        if own.filter is not None:
            filters = weights[at : at + own.filter.size].reshape(own.filter.shape)
            y += weights[at + own.filter.size : at + own.filter.size + own.bias.size]
            at += own.filter.size + own.bias.size
        if own.kind == "Add":
            y = read + found[own.inputs[1]].reshape(own.shapes[0])
        else:
            for row, column in np.ndindex(own.shapes[1][:2]):
                taps = []
                for i, j in np.ndindex(own.kernel):
                    r = row * own.stride[0] - own.pad[0] + i
                    c = column * own.stride[1] - own.pad[1] + j
                    if 0 <= r < own.shapes[0][0] and 0 <= c < own.shapes[0][1]:
                        taps.append((i, j, read[r, c]))
                for i, j, pixel in taps:
                    if own.kind == "Conv":
                        y[row, column] += filters.reshape(own.bias.size, *own.kernel, -1)[:, i, j] @ pixel
                    elif own.kind == "Depthwise":
                        y[row, column] += filters[0, i, j] * pixel
                pixels = np.array([pixel for _, _, pixel in taps])
                if own.kind == "MaxPool":
                    y[row, column] = pixels.max(0)
                elif own.kind == "AveragePool":
                    y[row, column] = pixels.mean(0)
        found[own.output] = np.maximum(y, 0) if own.relu else y
    return [found[i] for i in sorted(found)]


def cross_entropy(network: Any, weights: Any, x: Any, label: int) -> float:
    logits = values(network, weights, x)[network.layers[-1].output].ravel()
    return float(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label])


def small_network(networks: Any) -> Any:
    """Makes a network with every kind of layer, and a residual addition."""
    random = np.random.default_rng(0)

    def drawn(*shape: int) -> Any:
        return random.normal(0, 0.5, shape).astype(np.float32)

    layer = networks.Layer
    layers = [
        layer("Conv", (0,), 1, True, ((7, 5, 2), (4, 3, 5)), (3, 2), (2, 2), (1, 0), drawn(5, 3, 2, 2), drawn(5)),
        layer("Depthwise", (1,), 2, True, ((4, 3, 5),) * 2, (3, 3), (1, 1), (1, 1), drawn(1, 3, 3, 5), drawn(5)),
        layer("Conv", (2,), 3, False, ((4, 3, 5),) * 2, filter=drawn(5, 1, 1, 5), bias=drawn(5)),
        layer("Add", (1, 3), 4, True, ((4, 3, 5),) * 2),
        layer("MaxPool", (4,), 5, False, ((4, 3, 5), (2, 2, 5)), (2, 2), (2, 2), (0, 0)),
        layer("AveragePool", (5,), 6, False, ((2, 2, 5), (1, 1, 5)), (2, 2), (2, 2)),
        layer("Conv", (6,), 7, True, ((1, 1, 5), (1, 1, 6)), filter=drawn(6, 5), bias=drawn(6)),
        layer("Conv", (7,), 8, False, ((1, 1, 6), (1, 1, 3)), filter=drawn(3, 6), bias=drawn(3)),
    ]
    return networks.FloatNetwork(layers, [70, 60, 60, 60, 60, 20, 5, 6, 3])


def built(alternatives: Any, network: Any, folder: Path) -> Any:
    sources = alternatives.alternatives._backpropagation(network)
    return alternatives.learners.host_learner(sources, folder, network.sizes[0], network.classes)


@needs_gcc
def test_gradients_of_every_kind_of_layer(alternatives: Any, tmp_path: Path) -> None:
    """Compares a step with differences of the loss in float64."""
    network = small_network(alternatives.networks)
    learner = built(alternatives, network, tmp_path / "learner")
    weights = network.weights.astype(float)
    x = np.random.default_rng(1).normal(0, 1, 70)
    assert learner.scores(learner.prepared(x[None]))[0] == pytest.approx(
        values(network, weights, x)[8].ravel(), rel=1e-4
    )

    learner.train(learner.prepared(x[None]), [2], [1.0])
    found = weights - learner.weights(len(weights))
    step = 1e-6
    for i in range(len(weights)):
        moved = np.array([weights, weights])
        moved[:, i] += step, -step
        above, below = (cross_entropy(network, own, x, 2) for own in moved)
        assert found[i] == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=2e-5), i
    assert np.abs(found).max() > 0.1


@needs_gcc
@pytest.mark.parametrize("name", ["small_cnn", "residual"])
def test_an_int8_model_has_the_same_network_in_float32(alternatives: Any, name: str, tmp_path: Path) -> None:
    network = alternatives.networks.FloatNetwork.of(load_model(MODELS[name]()))
    learner = built(alternatives, network, tmp_path / "learner")
    x = np.random.default_rng(2).normal(0, 1, network.sizes[0])
    expected = values(network, network.weights.astype(float), x)[network.layers[-1].output].ravel()
    assert learner.scores(learner.prepared(x[None]))[0] == pytest.approx(expected, rel=1e-3, abs=1e-3)


@needs_gcc
def test_nearest_neighbours(alternatives: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x, y = random.integers(-128, 128, (20, 6)).astype(np.int8), random.integers(0, 3, 20)
    data = "".join(
        f"#define LEARNER_{name} {value}\n"
        for name, value in {"INPUTS": 6, "CLASSES": 3, "SAMPLES": 20, "NEIGHBOURS": 3}.items()
    )
    source = alternatives.learners.SOURCES / "nearest_neighbours.c"
    sources = alternatives.learners.Sources((source,), {"learner_data.h": data}, value=np.int8)
    learner = alternatives.learners.host_learner(sources, tmp_path / "learner", 6, 3)
    learner.train(learner.prepared(x), y, [0.0] * 20)
    for query in random.integers(-128, 128, (10, 6)).astype(np.int8):
        distances = ((x.astype(int) - query) ** 2).sum(1)
        nearest = y[np.argsort(distances, kind="stable")[:3]]
        votes = np.bincount(nearest, minlength=3)
        tied = [label for label in nearest if votes[label] == votes.max()]
        assert learner.scores(learner.prepared(query[None]))[0].argmax() == tied[0]


def test_blocks_of_a_plan_do_not_overlap(alternatives: Any) -> None:
    networks = alternatives.networks
    activations, errors = networks._blocks(small_network(networks))
    blocks = [*activations, *errors.values()]
    total = networks._planned(blocks)
    for i, a in enumerate(blocks):
        assert 0 <= a.place and a.place + a.size <= total
        for b in blocks[:i]:
            together = a.first <= b.last and b.first <= a.last
            assert not together or a.place + a.size <= b.place or b.place + b.size <= a.place
    assert total < sum(block.size for block in blocks)


def test_a_table_has_the_instructions_to_an_accuracy(alternatives: Any) -> None:
    report = alternatives.report
    device = [
        {
            "family": "gas",
            "method": "head",
            "core": "cortex-m4",
            "ram": 1000,
            "flash": 2000,
            "train": 10,
            "embed": 100,
            "predict": 5,
        },
        {
            "family": "gas",
            "method": "exact",
            "core": "cortex-m4",
            "ram": 3000,
            "flash": 4000,
            "train": 300,
            "minibatch": 2,
        },
    ]
    curves = [
        {"family": "gas", "method": "head", "task": f"gas-{n}", "step": str(s), "samples": s, "stored": 40, "test": a}
        for n in (4, 6, 8)
        for s, a in ((20, 60.0), (100, 90.0))
    ]
    ours = [
        {"method": "exact", "task": f"gas-{n}", "budget": b, "steps": b, "before": 50.0, "test": a}
        for n in (4, 6, 8)
        for b, a in ((10, 91.0), (50, 100.0))
    ]
    exact, head = report.lines("gas", curves, device, ours)
    assert [(p.instructions, p.accuracy) for p in head.points] == [(20 * 110, 60), (40 * 100 + 100 * 10, 90)]
    assert [(p.instructions, p.accuracy) for p in exact.points] == [(10 * 2 * 300, 91), (50 * 2 * 300, 100)]
    assert head.reached(90).instructions == 5000 and head.reached(91) is None
    rows = report.table([exact, head])
    assert rows[-1] == f"| {report.label('head')} | 1,000 B | 2,000 B | 110 | 0.0 M | – | – | 90.0 |"
    assert report.table([exact, head], 90)[-1].split(" | ")[4] == "0"
    board = {"clock": 64, "milliamperes": 3.3, "volts": 3.0}
    assert report.joules(64e6 / 1.3, "nano-33-ble", board) == pytest.approx(9.9e-3)
