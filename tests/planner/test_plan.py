"""`zo.plan`: its estimates agree with `firmware`, and reasons of impossible devices differ."""

import dataclasses
import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest

import tflm_zo as zo
from helpers.examples import slow_but
from helpers.injection import inject_all
from helpers.long_runs import calls_of
from helpers.models import MODELS
from helpers.models.streaming_networks import with_variables
from tflm_zo.firmware import generate_firmware
from tflm_zo.planner import SCHEMA, Plan
from tflm_zo.training import SettingsError


@pytest.fixture(scope="module")
def lenet5() -> Plan:
    return zo.plan(MODELS["lenet5"](), board="nucleo-f446re", power=0.1)


def test_the_ram_is_what_firmware_says(lenet5: Plan) -> None:
    for cost in lenet5.costs[:: max(1, len(lenet5.costs) // 5)]:
        memory = cost.sizes.run.memory
        made = generate_firmware(cost.way.zo, cost.way.settings, steps=1, samples=1, memory=memory)
        assert cost.ram == made.ram.bytes - max(made.ram.arena.bytes, made.ram.arena.bytes_mve) + cost.arena
        assert cost.arena == made.ram.arena.bytes


def test_ways_come_in_the_order_of_what_they_learn(lenet5: Plan) -> None:
    first, last = lenet5.costs[0].way, lenet5.costs[-1].way
    assert (first.name, first.update_bits, first.settings.batch_size) == ("exact gradients", 16, 1)
    names = list(dict.fromkeys(c.way.name for c in lenet5.costs))
    by_exact = ["exact gradients", "exact, last 3", "exact, last 2"]
    assert names == [*by_exact, "nodes", "last layer, exact", "weights", "biases"]
    nodes = next(c.way for c in lenet5.costs if c.way.name == "nodes")
    assert (nodes.update_bits, nodes.settings.batch_size) == (16, 8)
    assert last.name == "biases"


def test_the_first_that_fits_is_the_best(lenet5: Plan) -> None:
    best = lenet5.best
    assert best is not None and best.ram <= 128 * 1024
    for cost in lenet5.costs[: lenet5.costs.index(best)]:
        assert not cost.fits(lenet5.target)


def test_without_limits_the_first_way_is_the_best() -> None:
    plan = zo.plan(MODELS["small_cnn"]())
    assert plan.best is plan.costs[0]
    assert plan.best.seconds(plan.target) is None and plan.best.joules(plan.target) is None


def test_time_and_energy_follow_from_instructions(lenet5: Plan) -> None:
    cost, target = lenet5.costs[0], lenet5.target
    seconds = cost.seconds(target)
    assert seconds == pytest.approx(cost.instructions * 1.3 / 180e6)
    assert cost.joules(target) == pytest.approx(0.1 * cost.instructions * 1.3 / 180e6)
    assert cost.seconds(target, 1e5) == pytest.approx(seconds * 1e5 / cost.equivalents)
    half = zo.plan(MODELS["lenet5"](), board="nucleo-f446re", clock=90e6)
    assert half.costs[0].seconds(half.target) == pytest.approx(2 * seconds)


def test_a_sequence_costs_the_forward_passes_of_its_steps() -> None:
    model = with_variables()
    one, many = (zo.plan(model, sequence=n) for n in (None, 50))
    assert (one.sequence, many.sequence, zo.plan(MODELS["small_cnn"]()).sequence) == (1, 50, None)
    for short, long in zip(one.costs, many.costs, strict=True):
        assert long.equivalents == 50 * short.equivalents and long.ram == short.ram
        # Weights move once in a step.
        assert 40 * short.instructions < long.instructions < 50 * short.instructions
    for given, own in ((0, model), (5, MODELS["small_cnn"]())):
        with pytest.raises(SettingsError, match=f"must be at least 1, of a streaming model. Received: {given}"):
            zo.plan(own, sequence=given)


def test_fewer_layers_samples_and_bits_take_less_ram(lenet5: Plan) -> None:
    by = {(c.way.name, c.way.update_bits, c.way.settings.batch_size): c.ram for c in lenet5.costs}
    assert by["nodes", 8, 8] < by["nodes", 16, 8]
    assert by["nodes", 16, 1] < by["nodes", 16, 2] < by["nodes", 16, 4] < by["nodes", 16, 8]
    assert by["exact, last 2", 16, 1] < by["exact, last 3", 16, 1] < by["exact gradients", 16, 1]


def test_a_device_too_small_for_anything_is_told_what_would_fit() -> None:
    plan = zo.plan(MODELS["lenet5"](), ram=4096)
    assert plan.best is None
    fitting = plan.fitting_boards()
    assert fitting and all(b.ram * 1024 >= plan.smallest.ram for b in fitting)
    assert plan.as_dict()["best"] is None and plan.as_dict()["commands"] is None


def test_the_dictionary_is_json_and_has_its_version(lenet5: Plan) -> None:
    found = json.loads(json.dumps(lenet5.as_dict()))
    assert found["schema"] == SCHEMA == 1
    assert found["ways"][found["best"]]["fits"]
    assert [b["forward_equivalents"] for b in found["ways"][0]["budgets"]] == [10_000, 100_000]
    parts = ("arena", "workspace", "objects", "stack", "library")
    for way in found["ways"]:
        assert way["ram_bytes"] == sum(way[f"{part}_bytes"] for part in parts)
        assert all(math.isfinite(way[f"{what}_per_step"]) for what in ("seconds", "joules"))


def test_the_page_names_every_field(lenet5: Plan) -> None:
    page = (Path(__file__).parents[2] / "docs" / "plan.md").read_text(encoding="utf-8")
    found = lenet5.as_dict()
    for name in {*found, *found["target"], *found["ways"][0], *found["ways"][0]["budgets"][0]}:
        assert f"`{name}`" in page, name


def test_the_log_is_as_long_as_foretold(tmp_path: Path) -> None:
    plan = zo.plan(MODELS["small_cnn"]())
    cost = next(c for c in plan.costs if c.way.name == "weights")
    settings = dataclasses.replace(cost.way.settings, learning_rate=1.0)
    rng = np.random.default_rng(0)
    data, labels = rng.uniform(-1, 1, (64, 8, 8, 1)).astype(np.float32), rng.integers(0, 4, 64)
    sizes = []
    for steps in (4, 12):
        log = tmp_path / f"{steps}.zolog"
        zo.Trainer(cost.way.zo, settings).fit(data, labels, steps=steps, log=log, keep="last")
        sizes.append(log.stat().st_size)
    assert (sizes[1] - sizes[0]) / 8 == cost.sizes.log


@pytest.mark.parametrize("name", ["ram", "flash", "clock", "power", "cycles"])
def test_numbers_must_be_above_zero(name: str) -> None:
    with pytest.raises(SettingsError, match=f"`{name}` must be a finite number above 0. Received: 0"):
        zo.plan(MODELS["small_cnn"](), **{name: 0})


def test_a_zo_model_is_refused() -> None:
    with pytest.raises(zo.ConversionError, match="takes the plain model"):
        zo.plan(inject_all(MODELS["small_cnn"]()))


@pytest.mark.parametrize(
    "network", slow_but(("autoencoder", "depthwise_separable", "residual", "two_inputs"), sorted(MODELS))
)
def test_every_network_that_can_be_trained_has_a_plan(network: str) -> None:
    model = zo.load_model(MODELS[network]())
    try:
        zo.inject(model)
    except zo.ConversionError as error:
        with pytest.raises(zo.ConversionError, match=re.escape(str(error)[:40])):
            zo.plan(model)
        return
    plan = zo.plan(model)
    assert plan.best is plan.costs[0]
    for cost in plan.costs:
        assert cost.instructions > plan.inference > 0
        assert 0 < cost.backpropagation.float32 < cost.backpropagation.adam
        assert cost.equivalents > 0 and cost.ram > cost.arena > 0


@pytest.mark.parametrize(
    ("name", "most"), [("lenet5", 2_000_000), pytest.param("vww_96_int8.tflite", 18_600_000, marks=pytest.mark.slow)]
)
def test_what_a_plan_costs(name: str, most: int) -> None:
    """Counts calls: of MLPerf Tiny's largest network the limit is a tenth above those of today."""
    if name in MODELS:
        calls = calls_of(lambda: zo.plan(MODELS[name](), board="nano-33-ble"))
    else:
        model = Path(os.environ.get("TFLM_ZO_MODELS") or ".") / name
        if not model.is_file():
            pytest.skip(f"TFLM_ZO_MODELS HAS NO {name}: WHAT ITS PLAN COSTS WAS NOT COUNTED")
        calls = calls_of(lambda: zo.plan(model, board="nano-33-ble"))
    print(calls)
    assert calls < most


def test_a_way_that_does_not_fit_saves_memory() -> None:
    """Needs less RAM and more instructions where a network's activations are large."""
    usual = zo.plan(MODELS["depthwise_separable"](), core="cortex-m4").costs[0]
    plan = zo.plan(MODELS["depthwise_separable"](), core="cortex-m4", ram=usual.ram - 64)
    saving = plan.costs[0]
    assert usual.way.name == saving.way.name == "exact gradients"
    assert saving.fits(plan.target) and saving.instructions >= usual.instructions
    assert f"--ram {plan.target.ram}" in plan.commands()[0]
    least = zo.plan(MODELS["depthwise_separable"](), core="cortex-m4", ram=1000).costs[0]
    assert least.ram <= saving.ram < usual.ram and least.instructions > usual.instructions
