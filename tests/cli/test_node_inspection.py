"""inject for node perturbation, and the nodes in the output of inspect."""

from typing import Any

import pytest

from helpers.commands import result_of, run
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import load_model, read_metadata

LENET_LAYERS = ("conv2", "fc1", "fc2", "fc3")
# Nodes behind the pooling, or outputs; the layer's input, and the target of each node's credit.
LENET_NODES = [
    ("conv2", "max_pool", 5 * 5 * 16, 2400, 14 * 14 * 6 + 400, 2, False),
    ("fc1", "plain", 120, 48_000, 400 + 120, 2, False),
    ("fc2", "plain", 84, 10_080, 120 + 84, 24, False),
    ("fc3", "plain", 10, 840, 84 + 10, 32, True),
]


@pytest.mark.parametrize("options", [(), ("--algorithm", "node"), ("--nodes", "auto")])
def test_inject_for_node_perturbation(cli: Any, model_file: Any, options: tuple[str, ...]) -> None:
    """Needs no headroom and no replay, and the other layers are not in RAM."""
    result = result_of("inject", model_file("lenet5"), "-o", "o.zo.tflite", "--batch", 2, *options)
    assert result["algorithm"] == "node"
    zo = load_model("o.zo.tflite")
    metadata = read_metadata(zo)
    assert (metadata.headroom, metadata.replay, metadata.update_bits) == (0, False, 16)
    assert [t.layer for t in metadata.trainable] == [*LENET_LAYERS]
    assert not any(t.requantized_channels for t in metadata.trainable)
    assert {t.name for g in zo.subgraphs for t in g.tensors if t.is_variable and "filter" in t.name} == {
        f"{layer}/filter" for layer in LENET_LAYERS
    }
    assert not any(op.code.name == "TFLM_ZO_SEED_REPLAY" for g in zo.subgraphs for op in g.operators)
    keys = ("layer", "form", "nodes", "weights", "pair_bytes", "queries", "head")
    assert [tuple(row[key] for key in keys) for row in result["nodes"]] == LENET_NODES
    # conv1 and pool1; conv2 up to its output; its pooling; fc1; fc2; fc3; softmax and loss.
    assert [row["segment"] for row in result["nodes"]] == [3, 4, 5, 6]
    behind = [macs / 416_520 for macs in (58_920, 10_920, 840, 0)]
    assert [row["suffix"] for row in result["nodes"]] == pytest.approx(behind, abs=1e-6)


def test_inject_with_options(cli: Any, model_file: Any) -> None:
    options = ("--nodes", "fc1,fc3", "--nodes", "conv*", "--headroom", 3, "--replay", "--trainable", "all")
    result = result_of("inject", model_file("lenet5"), "-o", "o.zo.tflite", *options)
    metadata = read_metadata(load_model("o.zo.tflite"))
    assert (metadata.headroom, metadata.replay) == (3, True)
    assert [t.layer for t in metadata.trainable] == ["conv1", *LENET_LAYERS]
    carrying = [metadata.trainable[n.trainable].layer for n in metadata.nodes]
    assert carrying == ["conv1", "conv2", "fc1", "fc3"] == [row["layer"] for row in result["nodes"]]


def test_tables(cli: Any, model_file: Any) -> None:
    injected = cli("inject", model_file("lenet5"), "-o", "o.zo.tflite", "--algorithm", "node")
    inspected = cli("inspect", "o.zo.tflite")
    for text in (injected.stdout, inspected.stdout):
        rows = [
            [cell.strip() for cell in line.strip("│").split("│")]
            for line in text[text.index("Layers that carry nodes") :].splitlines()
            if line.startswith("│")
        ]
        assert rows == [
            ["conv2", "max_pool", "400", "2,400", "3", "14.15%", "2", "1,576"],
            ["fc1", "plain", "120", "48,000", "4", "2.62%", "2", "520"],
            ["fc2", "plain", "84", "10,080", "5", "0.20%", "24", "204"],
            ["fc3 (head)", "plain", "10", "840", "6", "0.00%", "32", "94"],
        ]
    content = result_of("inspect", "o.zo.tflite")
    assert [row["layer"] for row in content["nodes"]] == [*LENET_LAYERS]
    assert content["node_choices"] is None
    assert "Layers that carry nodes" not in cli("inspect", model_file("lenet5")).stdout


@pytest.mark.parametrize("name", slow_but(("small_cnn", "residual", "depthwise_separable", "two_outputs"), MODELS))
def test_inspect_says_what_inject_does(cli: Any, model_file: Any, name: str) -> None:
    model = model_file(name)
    choices = result_of("inspect", model, "--nodes")["node_choices"]
    every = read_metadata(inject_all(MODELS[name](), loss="none")).trainable
    assert [(c["layer"], c["weights"]) for c in choices] == [(t.layer, t.size) for t in every]
    run("inject", model, "-o", "auto.zo.tflite", "--algorithm", "node")
    metadata = read_metadata(load_model("auto.zo.tflite"))
    taken = [(metadata.trainable[n.trainable].layer, n.form, n.count) for n in metadata.nodes]
    assert [(c["layer"], c["form"], c["count"]) for c in choices if c["auto"]] == taken
    content = result_of("inspect", "auto.zo.tflite")
    untrained = [(r["layer"], r["weights"], r["reason"]) for r in content["untrained"]]
    assert untrained == [(c["layer"], c["weights"], c["reason"]) for c in choices if not c["auto"]]
    found = [t["layer"] for t in content["zo"]["trainable"]] + [r["layer"] for r in content["untrained"]]
    assert sorted(found) == sorted(c["layer"] for c in choices)
    for choice in choices:
        done = cli("inject", model, "-o", "one.zo.tflite", "--nodes", choice["layer"], "--force")
        assert (done.exit_code == 0) == (choice["form"] is not None)
        assert (choice["reason"] == "") == choice["auto"]
        if choice["form"] is None:
            assert choice["reason"] in done.stderr


@pytest.mark.parametrize("name", slow_but(("small_cnn", "residual", "two_outputs"), MODELS))
def test_inspect_says_where_errors_end(cli: Any, model_file: Any, name: str) -> None:
    model = model_file(name)
    choices = result_of("inspect", model, "--nodes")["node_choices"]
    reached = [c["layer"] for c in choices if not c["unreached"]]
    done = cli("inject", model, "-o", "exact.zo.tflite", "--algorithm", "exact")
    assert (done.exit_code == 0) == bool(reached)
    if reached:
        content = result_of("inspect", "exact.zo.tflite")
        assert sorted({t["layer"] for t in content["zo"]["trainable"]}) == sorted(set(reached))
        untrained = {r["layer"]: r["reason"] for r in content["untrained"]}
        assert untrained == {c["layer"]: c["unreached"] for c in choices if c["unreached"]}
    shown = cli("inspect", model, "--nodes").stdout
    assert ("No exact gradient: " in shown) == (len(reached) < len(choices))


def test_inspect_nodes_for_people(cli: Any, model_file: Any) -> None:
    text = cli("inspect", model_file("depthwise_separable"), "--nodes").stdout
    rows = [[c.strip() for c in line.split("│")[1:-1]] for line in text.splitlines() if "block1/p" in line]
    assert rows[-1] == ["block1/pointwise", "CONV_2D", "64", "mean", "8", "yes", ""]
    assert "has no fewer nodes than weights" in text


@pytest.mark.parametrize(
    ("options", "trained", "untrained"),
    [
        ((), dict.fromkeys(LENET_LAYERS, "nodes"), {"conv1": "has no fewer nodes than weights"}),
        (("--nodes", "conv1", "--tail", 4), {"conv1": "nodes"} | dict.fromkeys(LENET_LAYERS, "exact gradients"), {}),
        (
            ("--nodes", "fc2", "--trainable", "last:3"),
            {"fc1": "weight perturbation", "fc2": "nodes", "fc3": "weight perturbation"},
            {"conv1": "has no fewer nodes than weights", "conv2": "was not asked for"},
        ),
        (
            ("--algorithm", "weight", "--trainable", "fc3"),
            {"fc3": "weight perturbation"},
            dict.fromkeys(("conv1", "conv2", "fc1", "fc2"), "was not asked for"),
        ),
    ],
)
def test_the_way_of_every_layer_is_said(
    cli: Any, model_file: Any, options: tuple[Any, ...], trained: Any, untrained: Any
) -> None:
    injected = cli("inject", model_file("lenet5"), "-o", "o.zo.tflite", *options)
    content = result_of("inspect", "o.zo.tflite")
    names = [t["layer"] for t in content["zo"]["trainable"]]
    assert dict(zip(names, content["trained_by"], strict=True)) == trained
    assert {row["layer"]: row["reason"] for row in content["untrained"]} == untrained
    inspected = cli("inspect", "o.zo.tflite")
    for text, expected in ((injected.stdout, trained), (inspected.stdout, trained | untrained)):
        # The first table lists trained layers, the second one the others.
        first = {row[0]: row[-1] for row in reversed(_rows(text.partition("Trainable filters")[2]))}
        assert {layer: first[layer] for layer in expected} == expected


def _rows(text: str) -> list[list[str]]:
    return [[c.strip() for c in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
