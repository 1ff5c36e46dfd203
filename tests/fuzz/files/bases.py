"""The valid files that are damaged: small ones of every kind that the package reads."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.models.streaming_networks import with_variables
from tflm_zo.converters import ConversionError, load_model
from tflm_zo.training import Exact, Nodes, Settings, Trainer, Weights

PLAIN = [name for name in MODELS if name != "lenet5"]  # 60,000 weights: a tenth of the speed

SETTINGS: dict[str, dict[str, Any]] = {
    "weight": {"batch": 4},
    "eight bits": {"update_bits": 8},
    "cut, multipliers": {"cuts": "layers", "multipliers": "quantization-aware"},
    "without replay": {"replay": False},
    "nodes": {"nodes": "auto", "headroom": 0, "batch": 4, "trainable": "nodes"},
    "tail": {"nodes": (), "tail": 3, "headroom": 0, "batch": 4},
}


@dataclass(frozen=True)
class Run:
    """A ZO model and the log of a run that it was trained by."""

    model: bytes
    log: bytes
    options: tuple[str, ...]  # of train, for going on


@dataclass(frozen=True)
class Bases:
    """Models by name, arrays of an .npz by the plain model's name, and runs of each kind of log, on ``small_cnn``."""

    plain: dict[str, bytes]
    zo: dict[str, bytes]
    data: dict[str, dict[str, Any]]
    runs: dict[str, list[Run]]


def data_for(model: bytes, classes: int = 4, samples: int = 8) -> dict[str, Any]:
    rng, found = np.random.default_rng(4), {}
    inputs = load_model(model).subgraphs[0].inputs
    for i, tensor in enumerate(inputs):
        shape = (samples, *tensor.shape[1:])
        found["x" if len(inputs) == 1 else f"x{i}"] = rng.uniform(-1.5, 1.5, shape).astype(np.float32)
    return found | {"y": rng.integers(0, classes, samples)}


def build() -> Bases:
    plain = {name: MODELS[name]() for name in PLAIN} | {"streaming": with_variables(4, initial=3).to_bytes()}
    zo = {}
    for name, model in plain.items():
        for kind, settings in SETTINGS.items():
            try:
                zo[f"{name}, {kind}"] = inject_all(model, **settings).to_bytes()
            except ConversionError:
                pass  # a model without a layer for that
    data = {name: data_for(content) for name, content in plain.items()}
    return Bases(plain, zo, data, runs(plain["small_cnn"], data["small_cnn"]))


def runs(model: bytes, data: dict[str, Any]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {"seed log": [], "snapshot log": []}
    settings: list[tuple[str, Any, dict[str, Any], tuple[str, ...]]] = [
        ("seed log", Settings(tasks=(Weights(),), batch_size=4), {"batch": 4}, ()),
        (
            "seed log",
            Settings(tasks=(Weights(queries=2),), batch_size=4),
            {"batch": 2, "cuts": "layers"},
            ("--set", "queries=2"),
        ),
        ("snapshot log", Settings(batch_size=4, snapshot_every=2), SETTINGS["nodes"], ()),
        (
            "snapshot log",
            Settings(tasks=(Nodes(), Exact()), batch_size=4),
            SETTINGS["nodes"],
            ("--set", "exact.last=1"),
        ),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for i, (kind, chosen, injection, options) in enumerate(settings):
            zo = inject_all(model, **injection).to_bytes()
            log = Path(folder) / str(i)
            Trainer(zo, chosen, "litert").fit(data["x"], data["y"], steps=5, log=log)
            if kind == "snapshot log":
                options += ("--set", f"snapshot-every={chosen.steps_between_snapshots}", "--algorithm", "node")
            found[kind].append(Run(zo, log.read_bytes(), (*options, "--batch-size", "4", "--steps", "5")))
    return found


def choose(rng: Random, files: dict[str, bytes]) -> tuple[str, bytes]:
    name = rng.choice(list(files))
    return name, files[name]
