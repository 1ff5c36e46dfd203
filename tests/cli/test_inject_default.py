"""Python and the command line make the same ZO model of a model, byte for byte."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.models import MODELS
from tflm_zo.converters import InjectSettings, Last, TopK, inject, read_metadata
from tflm_zo.training import algorithms, inject_settings

# Options of the command line, and the same in Python.
SAME: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    ((), {}),
    (("--batch", "4"), {"batch": 4}),
    (("--trainable", "last:1"), {"trainable": Last(1)}),
    (("--trainable", "all"), {"trainable": "all"}),
    (("--trainable", "none"), {"trainable": "none"}),
    (("--nodes", "fc1", "--nodes", "fc2"), {"nodes": ["fc1", "fc2"]}),
    (("--headroom", "1", "--update-bits", "8"), {"headroom": 1, "update_bits": 8}),
    (("--loss", "floor-log2", "--max-queries", "4"), {"loss": "floor_log2", "max_queries": 4}),
    (("--cut", "layers", "--replay"), {"cuts": "layers", "replay": True}),
    (("--multipliers", "kernel-norm"), {"multipliers": "kernel-norm"}),
    (
        ("--algorithm", "weight", "--sparse", "top-k:0.5"),
        {"settings": inject_settings(algorithms.weight()), "sparse": TopK(0.5)},
    ),
]


@pytest.mark.parametrize(("options", "given"), SAME, ids=[" ".join(o) or "defaults" for o, _ in SAME])
def test_the_same_bytes(
    options: tuple[str, ...], given: dict[str, Any], tmp_path: Path, cli: Callable[..., Any]
) -> None:
    plain, output = tmp_path / "plain.tflite", tmp_path / "zo.tflite"
    plain.write_bytes(MODELS["lenet5"]())
    made = cli("inject", plain, "-o", output, *options)
    assert made.exit_code == 0, made.stderr
    assert output.read_bytes() == inject(plain, **given).to_bytes()


def test_the_defaults_are_those_of_node_perturbation() -> None:
    model, usual = MODELS["lenet5"](), inject_settings(algorithms.node())
    assert inject(model).to_bytes() == inject(model, InjectSettings()).to_bytes()
    assert inject(model).to_bytes() == inject(model, usual).to_bytes()
    metadata = read_metadata(inject(model))
    assert metadata.algorithm == "node" and metadata.nodes and metadata.headroom == 0
