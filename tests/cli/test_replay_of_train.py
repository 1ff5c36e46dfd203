"""``replay`` of a log writes the same bytes as ``train`` of the plain model."""

from pathlib import Path

import pytest

from helpers.commands import invoke
from tflm_zo.converters import load_model

STEPS = ("--steps", "6", "--runtime", "litert")
RUNS = {
    "node": ("--algorithm", "node"),
    "layers": ("--algorithm", "node", "--set", "layers=fc"),
    "choose-block": ("--algorithm", "poor-mans-training", "--choose-block", "2"),
    "exact": ("--algorithm", "fqt", "--set", "last=1"),
    "weight tasks": ("--algorithm", "elastic-zo-int8"),
    "weight": ("--algorithm", "weight"),
    "momentum": ("--algorithm", "qzo-ff"),
    "keep last": ("--algorithm", "weight", "--keep", "last"),
}


def run(*arguments: str) -> None:
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", RUNS)
def test_same_bytes(name: str, folder: Path) -> None:
    run("train", "p.tflite", "d.npz", "-o", "a.tflite", *STEPS, *RUNS[name])
    run("replay", "a.zo.tflite", "a.zolog", "-o", "b.tflite")
    assert Path("a.tflite").read_bytes() == Path("b.tflite").read_bytes()
    model = load_model("b.tflite")
    assert model.subgraphs[0].inputs[0].shape[0] == 1  # as the plain model, not as the ZO model
    # A run of the ZO model that train has written is the same run.
    run("train", "a.zo.tflite", "d.npz", "-o", "c.tflite", *STEPS, *RUNS[name])
    assert Path("c.tflite").read_bytes() == Path("a.tflite").read_bytes()
    # Neither is one that was resumed.
    log = Path("a.zolog").read_bytes()
    Path("a.zolog").write_bytes(log[: -40 - len(log) % 7])
    run("train", "p.tflite", "d.npz", "-o", "a.tflite", *STEPS, *RUNS[name], "--resume")
    assert Path("a.zolog").read_bytes() == log
    assert Path("c.tflite").read_bytes() == Path("a.tflite").read_bytes()
