"""Firmware that chooses a block of layers: its tables against the desktop's probes, and refusals."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.firmware_folders import zo_model
from helpers.models import lenet5
from tflm_zo import inject
from tflm_zo.converters import Model
from tflm_zo.data import Data
from tflm_zo.firmware import PLATFORMS, BlockSearch, Firmware, generate_firmware
from tflm_zo.training import BlockProbes, Exact, Nodes, Settings, SettingsError, Weights

pytestmark = pytest.mark.usefixtures("nothing_is_measured")

SAMPLES, STEPS = 30, 11
RNG = np.random.default_rng(2)
X = RNG.integers(-128, 128, (SAMPLES, 28, 28, 1)).astype(np.int8)
Y = np.where(np.arange(SAMPLES) % 9 == 4, -1, RNG.integers(0, 3, SAMPLES)).astype(np.int32)
SETTINGS = Settings(tasks=(Nodes(queries=2), Exact()), batch_size=8, seed=3, snapshot_every=4)
SEARCH = BlockSearch(blocks=3, held_out=0.3, epochs=2)
LAYERS = ("conv1", "conv2", "fc1", "fc2", "fc3")


@pytest.fixture(scope="module")
def model() -> Model:
    return inject(lenet5(), trainable="nodes", nodes=LAYERS, batch=4, headroom=0, replay=False)


def generated(model: Model, settings: Any = SETTINGS, **options: Any) -> Firmware:
    given = {"steps": STEPS, "samples": SAMPLES, "name": "net", "data": Data([X], Y)}
    return generate_firmware(model, settings, **{**given, "search": SEARCH, **options})


def values(text: str, declaration: str) -> list[str]:
    """Returns the values between the braces of a definition, without comments."""
    found = re.findall(rf"{re.escape(declaration)} = \{{(.*?)\n\}};", text, re.S)
    assert len(found) == 1, declaration
    return [v.strip() for v in re.sub(r"/\*.*?\*/", "", found[0]).replace("\n", " ").split(",") if v.strip()]


def field(text: str, settings: str, name: str) -> int:
    body = re.findall(rf"const net_zo_node_settings {settings} = \{{(.*?)\n\}};", text, re.S)
    assert len(body) == 1
    return int(re.findall(rf"/\* {name} \*/ (\d+)u,", body[0])[0])


def test_tables_are_the_desktops_probes(model: Model) -> None:
    made = generated(model)
    text = made.files["net_zo_model.cc"]
    probes = BlockProbes(model, SETTINGS, X, Y, SEARCH, runtime="litert")
    held_out = [int(v) for v in values(text, "const uint32_t kHeldOut[8]")]  # 0.3 of 27 with a label
    assert held_out == sorted(set(held_out)) and (Y[held_out] >= 0).all()
    np.testing.assert_array_equal(X[held_out], probes._probe.judge.inputs[0])
    rest = SAMPLES - len(held_out)
    assert probes.blocks == (("conv1", "conv2"), ("fc1", "fc2"), ("fc3",))
    for i, layers in enumerate(probes.blocks):
        assert f"// Block {i}: {', '.join(layers)}\n" in text
        assert re.search(rf"const TaskInfo kTasks{i}\[{len(layers)}\]", text)
        for name, steps, samples in (("kProbe", probes._steps, rest), ("kRun", STEPS, SAMPLES)):
            expected = {"run_seed": 3, "steps": steps, "samples": samples, "batch": 4, "parts": 2}
            expected["tasks"] = len(layers)
            assert {key: field(text, f"{name}{i}", key) for key in expected} == expected
    rows = values(text, "const BlockInfo kBlocks[3]")
    expected = [(f"{{&kModels[{i}]", f"&kProbe{i}", f"&kRun{i}", f"kTasks{i}") for i in range(3)]
    assert [tuple(rows[at : at + 4]) for at in (0, 5, 10)] == expected
    assert "kBlockChoice = {kBlocks, kHeldOut, 3, 8};" in text
    assert "kSettings" not in text
    assert "BlockTrainer::Init(&network_, kBlockChoice, 4," in made.files["net_zo_trainer.cc"]
    config = made.files["net_zo_config.h"]
    assert f"#define NET_ZO_STEPS {STEPS}u" in config and f"#define NET_ZO_SAMPLES {SAMPLES}u" in config
    assert "blocks: conv1, conv2; fc1, fc2; fc3" in config


def test_memory_is_that_of_the_largest_block(model: Model) -> None:
    made = generated(model)
    alone = [
        generated(model, dataclasses.replace(SETTINGS, layers=layers), search=None).ram.workspace
        for layers in (("conv1", "conv2"), ("fc1", "fc2"), ("fc3",))
    ]
    everything = generated(model, search=None).ram.workspace
    # Boundaries of all blocks, and the largest memory of their runs.
    assert max(alone) <= made.ram.workspace < everything


@pytest.mark.parametrize("platform", slow_but(list(PLATFORMS)[:2], PLATFORMS))
def test_the_example_chooses(platform: str, model: Model) -> None:
    made = generated(model, platform=platform)
    example = [made.files[path] for path in made.example if "TrainStep" in made.files[path]]
    assert len(example) == 1
    probe, step = example[0].index("trainer.Probe(&probe)"), example[0].index("trainer.TrainStep(")
    assert probe < step
    plain = generated(model, platform=platform, search=None)
    assert not any("Probe(" in plain.files[path] for path in plain.example)

    def trainers(files: dict[str, str]) -> set[str]:
        joined = next(text for path, text in files.items() if path.endswith("_zo_trainer.h"))
        return set(re.findall(r"(?m)^class (\w+)Trainer\b", joined))

    assert trainers(made.files) == {"Block", "Node"} and trainers(plain.files) == {"Node"}


def test_refusals(model: Model) -> None:
    few = Data([X[:9]], Y[:9])
    unlabelled = Data([X], np.full(SAMPLES, -1, np.int32))
    for options, said in (
        ({"data": None}, "`data` must be 30 samples with labels, because held-out samples judge a block"),
        ({"data": few}, "Received: 9"),
        ({"search": BlockSearch(6)}, "`blocks` must be in 1..5, the number of trained layers"),
        ({"search": BlockSearch(held_out=0.001)}, "`held_out` must divide the"),
        ({"data": unlabelled}, "`held_out` must divide the"),
    ):
        with pytest.raises(SettingsError, match=re.escape(said)):
            generated(model, **options)
    with pytest.raises(SettingsError, match="`blocks` must be left out in runs of weight perturbation alone"):
        generate_firmware(
            zo_model("weight"),
            Settings(tasks=(Weights(),), batch_size=64),
            steps=3,
            samples=9,
            data=Data([np.zeros((9, 8, 8, 1), np.int8)], Y[:9]),
            search=BlockSearch(2),
        )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"blocks": 0}, "`blocks` must be an integer in 1.."),
        ({"epochs": 0}, "`epochs` must be an integer in 1.."),
        ({"held_out": 1.5}, "`held_out` must be in 0..1"),
        ({"held_out": float("nan")}, "`held_out` must be in 0..1"),
    ],
)
def test_ranges(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        BlockSearch(**given)
