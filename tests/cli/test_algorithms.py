"""Algorithms by name on the command line: listed, trained with, and their requirements of a plain model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import result_of, run
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.training import ALGORITHMS

X = np.random.default_rng(0).integers(-128, 128, (40, 28, 28, 1)).astype(np.int8)
Y = np.random.default_rng(1).integers(0, 10, 40)


@pytest.fixture
def data() -> Path:
    np.savez("d.npz", x=X, y=Y)
    return Path("d.npz")


def constants(path: str) -> dict[str, bytes]:
    return {
        t.name: t.numpy().tobytes()
        for t in load_model(path).subgraphs[0].tensors
        if t.is_constant and t.name.endswith(("filter", "bias"))
    }


def test_list(cli: Any) -> None:
    listed = result_of("algorithms")["algorithms"]
    assert [a["name"] for a in listed] == list(ALGORITHMS)
    one = result_of("algorithms", "elastic-zo-int8")["algorithms"]
    assert len(one) == 1
    assert one[0]["settings"]["perturbation"] == "sparse-uniform:15:0.33"
    assert one[0]["settings"]["exact.bits"] == "5,4,3"
    assert one[0]["tasks"] == ["weights", "exact"]
    assert one[0]["injection"]["update_bits"] == 8
    text = cli("algorithms", "qzo-ff").stdout
    assert "gaussian:1" in text and "queries" in text and "--set NAME=VALUE" in text
    refused = cli("algorithms", "adam")
    assert refused.exit_code == 1
    assert f"must be one of {', '.join(ALGORITHMS)}. Received: 'adam'" in refused.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--algorithm", "weight", "--set", "perturbation=rademacher:5"), {"headroom": 5}),
        (("--algorithm", "weight", "--set", "queries=20"), {"max_queries": 20}),
        (("--algorithm", "elastic-zo", "--set", "last=2"), {"nodes": [], "tail": ["fc2", "fc3"]}),
        (("--algorithm", "weight", "--set", "exact.last=2"), {"nodes": [], "tail": ["fc2", "fc3"]}),
        (("--algorithm", "elastic-zo"), {"nodes": ["fc3"], "tail": []}),
        (("--set", "weights.scope=layers"), {"segments": 7, "nodes": ["conv2", "fc1", "fc2", "fc3"]}),
        (("--algorithm", "layer"), {"segments": 5}),
        (("--set", "nodes=last:2"), {"nodes": ["fc2", "fc3"]}),
        (("--set", "nodes=fc1,fc3", "--set", "update-bits=8"), {"nodes": ["fc1", "fc3"], "update_bits": 8}),
        (("--set", "loss=floor-log2"), {"loss": "floor_log2"}),
    ],
)
def test_what_settings_ask_of_a_plain_model(
    options: tuple[str, ...], expected: dict[str, Any], cli: Any, model_file: Any, data: Path
) -> None:
    run("train", model_file("lenet5"), data, "-o", "a.tflite", "--steps", 1, *options)
    metadata = read_metadata(load_model("a.zo.tflite"))
    found = {
        "headroom": metadata.headroom,
        "max_queries": metadata.max_queries,
        "update_bits": metadata.update_bits,
        "nodes": [metadata.trainable[n.trainable].layer for n in metadata.nodes],
        "tail": [metadata.trainable[n.trainable].layer for n in (metadata.tail.layers if metadata.tail else ())],
        "segments": len(metadata.segments),
        "loss": metadata.loss.kind if metadata.loss else None,
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--algorithm", "elastic-zo", "--set", "last=6"), "`tail` must be at most 5, the number of"),
        (("--algorithm", "elastic-zo-int8", "--set", "update-bits=16"), "Inject the original model with"),
        (("--algorithm", "weight", "--set", "nodes=fc1"), "`--set nodes` must be left out, since algorithm"),
        (("--algorithm", "layer", "--set", "perturbation=rademacher:200"), "rademacher:200"),
        (("--set", "nodes=last:0"), "`--set nodes` must have N >= 1 in 'last:N'"),
        (("--set", "exact.bits=5,4", "--set", "exact.rule=bits"), "three"),
    ],
)
def test_refusals(options: tuple[str, ...], said: str, cli: Any, model_file: Any, data: Path) -> None:
    done = cli("train", model_file("lenet5"), data, "-o", "a.tflite", "--steps", 1, *options)
    assert done.exit_code == 1
    assert said in " ".join(done.stderr.split())
    assert not Path("a.tflite").exists() and not Path("a.zo.tflite").exists()


def test_re_range(cli: Any, model_file: Any, data: Path) -> None:
    """Filters of the output have other scales."""
    steps = ("--steps", 3, "--batch-size", 32, "--runtime", "litert")
    run("train", model_file("lenet5"), data, "-o", "plain.tflite", *steps)
    ranged = ("replay", "plain.zo.tflite", "plain.zolog", "-o", "ranged.tflite", "--re-range")
    run(*ranged)
    scales = [
        {
            t.name: t.quantization.scales
            for t in load_model(f"{name}.tflite").subgraphs[0].tensors
            if t.name.endswith("filter") and t.quantization is not None
        }
        for name in ("plain", "ranged")
    ]
    assert any(not np.array_equal(scales[0][name], scales[1][name]) for name in scales[0])
    assert constants("plain.tflite") != constants("ranged.tflite")
