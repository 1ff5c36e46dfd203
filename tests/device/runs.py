"""Runs of every kind, generated for a device, and the desktop's results of them."""

import dataclasses
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from device.emulation import OK, RUNTIME, Device, Store
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.models import MODELS, residual
from tflm_zo import Model, load_model
from tflm_zo.converters import ResidualBlocks, read_metadata
from tflm_zo.core import Rademacher
from tflm_zo.data import Data
from tflm_zo.firmware import Firmware, arena, generate_firmware, plan_run
from tflm_zo.firmware.boundaries import saving_memory
from tflm_zo.firmware.device_model import device_model
from tflm_zo.training import (
    Callback,
    Exact,
    Nodes,
    PerError,
    RunProgress,
    Settings,
    Trainer,
    Weights,
    algorithm,
    inject_settings,
)
from tflm_zo.training.lowering import StepMemory

CLASSES, SAMPLES, STEPS = 4, 12, 6
_NODES: dict[str, Any] = {"trainable": "nodes", "nodes": "auto", "headroom": 0, "replay": False}
_LAYERWISE = algorithm("poor-mans-training")
_GAUSSIAN = dataclasses.replace(algorithm("qzo-ff"), batch_size=4, seed=5)

#: Injection and settings by name. They are of `small_cnn`, which ends in logits: with nodes at the last layer
#: its output enters the last segment. Runs whose name begins with "residual" are of `residual`: its
#: shortcuts cross segments.
RUNS: dict[str, tuple[dict[str, Any], Any]] = {
    "weight": (
        {"trainable": "all", "update_bits": 8},
        Settings(tasks=(Weights(queries=2),), batch_size=4, seed=3, learning_rate=20.0),
    ),
    "weight, segments": (
        {"trainable": "all", "cuts": "layers"},
        Settings(tasks=(Weights(queries=2),), batch_size=2, seed=4, learning_rate=20.0),
    ),
    "weight, blocks": (
        {"trainable": "all", "cuts": "layers"},
        Settings(tasks=(Weights(queries=2, scope="blocks"),), batch_size=2, seed=5, learning_rate=20.0),
    ),
    "weight, 16 bits": (dict(inject_settings(_GAUSSIAN, batch=2).__dict__), _GAUSSIAN),
    "node": (_NODES, Settings(tasks=(Nodes(queries=2),), batch_size=4, seed=5, snapshot_every=2)),
    "exact head": (
        {**_NODES, "update_bits": 8},
        Settings(tasks=(Nodes(queries=2), Exact()), batch_size=2, seed=6, snapshot_every=1),
    ),
    "residual, every layer": (
        {**_NODES, "nodes": "*"},
        Settings(tasks=(Nodes(queries=2),), batch_size=4, seed=8, snapshot_every=2),
    ),
    "residual, behind a prefix": (
        {**_NODES, "nodes": ("block1/conv0", "projection", "fc")},
        Settings(tasks=(Nodes(queries=2), Exact()), batch_size=2, seed=9, learning_rate=1.0, snapshot_every=3),
    ),
    "residual, exact tail": (
        {**_NODES, "nodes": ("stem",), "tail": ResidualBlocks(2)},
        Settings(tasks=(Nodes(queries=2), Exact(last=ResidualBlocks(2))), batch_size=4, seed=11, snapshot_every=2),
    ),
    "residual, weights beside an exact tail": (
        {
            "trainable": "all",
            "nodes": (),
            "tail": ResidualBlocks(1),
            "headroom": 2,
            "replay": False,
            "parameters": "all",
        },
        Settings(
            tasks=(
                Weights(perturbation=Rademacher(1), queries=2, parameters="all"),
                Exact(last=ResidualBlocks(1)),
            ),
            batch_size=4,
            seed=12,
            learning_rate=2.0,
            snapshot_every=2,
        ),
    ),
    "residual, exact, least memory": (
        {**_NODES, "nodes": (), "tail": "all", "trainable": "all", "parameters": "all", "batch": 1},
        Settings(
            tasks=(Exact(last="all", rule=PerError(), parameters="all"),),
            batch_size=1,
            seed=11,
            learning_rate=0.5,
            snapshot_every=2,
        ),
    ),
    "exact, computed again": (
        {**_NODES, "nodes": (), "tail": "all", "trainable": "all", "update_bits": 8, "batch": 1},
        Settings(
            tasks=(Exact(last="all", rule=PerError()),), batch_size=1, seed=11, snapshot_every=3, learning_rate=0.5
        ),
    ),
    "residual, nodes and exact, one sample": (
        {**_NODES, "nodes": ("stem",), "tail": ResidualBlocks(2), "update_bits": 8, "batch": 1},
        Settings(
            tasks=(Nodes(queries=2), Exact(last=ResidualBlocks(2))),
            batch_size=1,
            seed=11,
            learning_rate=0.5,
            snapshot_every=2,
        ),
    ),
    "residual, blocks with biases": (
        {"trainable": "all", "cuts": "layers", "parameters": "all"},
        Settings(
            tasks=(Weights(queries=2, scope="blocks", parameters="all"),), batch_size=4, seed=10, learning_rate=20.0
        ),
    ),
    "biases, too": (
        {**_NODES, "nodes": "*", "parameters": "all"},
        Settings(tasks=(Nodes(queries=2, parameters="all"),), batch_size=4, seed=11, snapshot_every=2),
    ),
    "residual, biases alone": (
        {**_NODES, "nodes": "*", "parameters": "biases", "update_bits": 8},
        Settings(
            tasks=(Nodes(queries=2, parameters="biases"), Exact(parameters="biases")),
            batch_size=4,
            seed=11,  # whose best state comes after some steps, as that of each run here
            snapshot_every=2,
        ),
    ),
    "residual, biases beside": (
        {**_NODES, "nodes": "*", "parameters": "all"},
        Settings(tasks=(Nodes(queries=2), Exact(parameters="biases")), batch_size=2, seed=11, snapshot_every=2),
    ),
    "nodes and weights": (
        dict(inject_settings(_LAYERWISE, batch=2, parameters="all").__dict__) | {"nodes": "auto"},
        Settings(
            tasks=(Nodes(queries=2), Weights(queries=2, perturbation=Rademacher(1), scope="layers", parameters="all")),
            batch_size=4,
            seed=7,
            snapshot_every=3,
            learning_rate=2.0,
        ),
    ),
}
#: How a device saves memory.
MEMORY = {"exact, computed again": StepMemory(True, (1, 2))}
#: Runs that compute activations again.
RECOMPUTING = ("residual, exact, least memory", *MEMORY)
SEGMENTED_WEIGHTS = ("weight, segments", "weight, blocks", "residual, blocks with biases")
WEIGHT_RUNS = ("weight", "weight, 16 bits", *SEGMENTED_WEIGHTS)

#: Parameters of tests: `make test` has some of each kind of trainer, with shortcuts across segments and with
#: biases; the others are slow.
_SOME = (
    "weight, segments",
    "nodes and weights",
    "residual, exact, least memory",
    "residual, weights beside an exact tail",
)
EACH_RUN = slow_but(_SOME, RUNS)
EACH_WEIGHT_RUN = slow_but([name for name in _SOME if name in WEIGHT_RUNS], WEIGHT_RUNS)


@cache
def samples(seed: int = 1, count: int = SAMPLES) -> Data:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (count, 8, 8, 1)).astype(np.int8)
    return Data([x], rng.integers(0, CLASSES, count).astype(np.int32))


def yardstick() -> Data:
    """Returns the samples that select the best state, which in some runs has not the smallest loss."""
    return samples(60, 7)


@cache
def zo_model(name: str) -> Model:
    network = residual(channels=1, classes=CLASSES) if name.startswith("residual") else MODELS["small_cnn"]()
    return load_model(inject_all(network, **{"batch": 2, **RUNS[name][0]}).to_bytes())


def generated(model: Model, settings: Any, data: Data, *, steps: int = STEPS, **options: Any) -> Firmware:
    """Generates a folder, with the arena's bound: measuring takes a second."""
    with mock.patch.object(arena, "recorded", return_value=None):
        return generate_firmware(model, settings, steps=steps, samples=len(data), name="small", data=data, **options)


@dataclass(frozen=True)
class State:
    """After a step: weights then fractions as `ExportWeights` gives them, and their checksum."""

    weights: bytes
    checksum: int


@dataclass(frozen=True)
class Desktop:
    """A run on this machine."""

    losses: list[int]  # of the steps, unit 2^-16
    log: bytes
    states: list[State]  # before the first step and after each
    before: dict[str, float]  # evaluations
    after: dict[str, float]
    outputs: NDArray[np.int8]  # of the trained model, [samples, outputs]
    kept: State  # of the trained model: the last state, or the best


def state_of(trainer: Trainer) -> State:
    runtime = trainer.runtime
    names = [t.name for t in runtime.metadata.trainable]
    parts = [runtime.read_weights(), runtime.read_fractions()]
    weights = b"".join(part[name].tobytes() for part in parts for name in names if name in part)
    runtime.invoke(runtime.command(loss=False, checksum=True))
    return State(weights, runtime.status().checksum)


class _States(Callback):
    def __init__(self, trainer: Trainer) -> None:
        self._trainer, self.found = trainer, [state_of(trainer)]

    def on_step_end(self, progress: RunProgress, logs: dict[str, float]) -> None:
        self._trainer._settle_run()
        self.found.append(state_of(self._trainer))


def run_on_desktop(model: Model, settings: Any, data: Data, *, steps: int = STEPS, measure_every: int = 0) -> Desktop:
    """Runs on the desktop as the device will; with `yardstick` if it measures."""
    x, y = data.inputs[0], data.labels
    trainer = Trainer(model, settings, runtime=RUNTIME)
    before = trainer.evaluate(x, y)
    states = _States(trainer)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.zolog"
        measured = (yardstick().inputs[0], yardstick().labels) if measure_every else None
        with mock.patch("tflm_zo.training.trainer.measuring_interval", return_value=measure_every):
            history = trainer.fit(
                x,
                y,
                steps=steps,
                log=log,
                callbacks=[states],
                validation_data=measured,
                keep="best" if measure_every else "last",
            )
        content = log.read_bytes()
    runtime = trainer.runtime
    outputs = []
    for i in range(0, len(data), runtime.batch):
        runtime.set_inputs(x[i : i + runtime.batch])
        runtime.invoke()
        outputs.append(runtime.outputs()[0].reshape(runtime.batch, -1))
    return Desktop(
        [round(v / runtime.metadata.loss.unit * 65536) for v in history.steps],
        content,
        states.found,
        before,
        trainer.evaluate(x, y),
        np.concatenate(outputs),
        state_of(trainer),
    )


@cache
def desktop(name: str, data_seed: int = 1, measure_every: int = 0) -> Desktop:
    data = samples(data_seed)
    return run_on_desktop(zo_model(name), RUNS[name][1], data, measure_every=measure_every)


def least_memory(model: Model, settings: Settings) -> StepMemory:
    usual = device_model(model, plan_run(model, settings, steps=STEPS, samples=SAMPLES))
    memory = saving_memory(model, read_metadata(model), usual, 0).plan.memory
    assert memory.shares_arena and memory.recomputed
    return memory


def device(name: str, data_seed: int = 1) -> Device:
    model, data = zo_model(name), samples(data_seed)
    memory = least_memory(model, RUNS[name][1]) if name.endswith("least memory") else MEMORY.get(name)
    made = Device(generated(model, RUNS[name][1], samples(), memory=memory), model, data)
    status = made.init()
    assert status == OK
    return made


def train(made: Device, until: int = STEPS) -> None:
    while made.step < until:
        assert made.train_step()[0] == OK


def check_run(made: Device, expected: Desktop) -> Store:
    """Trains from the first step: losses, checksums and log are the desktop's. Returns its store."""
    store = Store()
    assert (made.init(), made.set_log(store), made.checksum()) == (OK, OK, expected.states[0].checksum)
    for loss, state in zip(expected.losses, expected.states[1:], strict=True):
        status, report = made.train_step()
        assert (status, report.mean_loss, made.checksum()) == (OK, loss, state.checksum)
    assert store.content(len(expected.log)) == expected.log
    return store
