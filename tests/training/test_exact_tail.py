"""An exact tail through convolutions and blocks: its gradients are TensorFlow's, and it takes whole runs."""

import dataclasses
import os
from pathlib import Path

import pytest

from helpers.exact_gradients import check_gradients, samples
from helpers.interpreters import require
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from helpers.models.node_networks import attention, other_operators, parts
from tflm_zo.converters import ConversionError, Last, ResidualBlocks, inject, load_model, read_metadata
from tflm_zo.training import (
    Exact,
    Nodes,
    Settings,
    SettingsError,
    Trainer,
    Weights,
    algorithms,
    inject_for,
    inject_settings,
)
from tflm_zo.training.lowering import lower
from tflm_zo.training.rules import Bits

SOURCES = {
    **{name: MODELS[name] for name in ("residual", "depthwise_separable", "lenet5")},
    "other": other_operators,
    "parts": parts,
    "attention": attention,
}


TAILS = {
    "residual": (ResidualBlocks(1), ResidualBlocks(2), 3, 7),
    "depthwise_separable": (2, 4, 6),
    "lenet5": (4, 5),
    "other": (2, 4),
    "parts": (2, 3, 4),
    "attention": (2, 3, 5, 6),
}


@pytest.mark.parametrize(
    ("name", "last"),
    [
        pytest.param(name, last, marks=[pytest.mark.slow] * (last != tails[-1]))
        for name, tails in TAILS.items()
        for last in tails
    ],
)
def test_errors_are_the_gradients(name, last, monkeypatch):
    check_gradients(SOURCES[name](), last, monkeypatch)


@pytest.mark.parametrize("seed", [3, 6, 7, 8])
def test_of_equals_in_a_window_the_first_gets_the_error(seed, monkeypatch):
    """The samples of each seed have equals in some window that tell which one does."""
    check_gradients(SOURCES["other"](), 4, monkeypatch, seed=seed)


@pytest.mark.parametrize(
    ("model", "last"),
    [
        ("kws_ref_model", 10),
        *(("pretrainedResnet_quant", last) for last in (10, *(ResidualBlocks(n) for n in (1, 2, 3)))),
        ("vww_96_int8", 28),
    ],
    ids=str,
)
def test_errors_are_the_gradients_of_real_models(model, last, monkeypatch):
    path = Path(os.environ.get("TFLM_ZO_MODELS", "none")) / f"{model}.tflite"
    if not path.exists():
        pytest.skip(f"TFLM_ZO_MODELS HAS NO {path.name}: ITS GRADIENTS WERE NOT COMPARED")
    check_gradients(path.read_bytes(), last, monkeypatch, count=1 if last == 28 else 2)


def trained(name, settings, runtime, folder, **given):
    plain = load_model(SOURCES[name]())
    x, y = samples_of(plain)
    trainer = Trainer(inject_for(plain, settings, **given), settings, runtime)
    trainer.fit(x, y, steps=5, log=folder / runtime, keep="last")
    return (folder / runtime).read_bytes(), trainer.export().to_bytes()


def samples_of(model):
    return samples(model, 24, 5)


WHOLE_RUNS = {
    "a block alone": ("residual", Settings(tasks=(Exact(last=ResidualBlocks()),), batch_size=8, seed=1)),
    "with its biases": (
        "residual",
        Settings(tasks=(Exact(last=ResidualBlocks(), parameters="all"),), batch_size=8, seed=1),
    ),
    "behind nodes": ("lenet5", Settings(tasks=(Nodes(queries=2), Exact(last=4)), batch_size=8, seed=2)),
    "behind weights": (
        "residual",
        Settings(tasks=(Weights(scope="layers"), Exact(last=ResidualBlocks())), batch_size=8, seed=3),
    ),
    "parted and joined": ("parts", Settings(tasks=(Exact(last=4),), batch_size=8, seed=5)),
    "squeeze and excitation": ("attention", Settings(tasks=(Exact(last=6),), batch_size=8, seed=6)),
    "in few bits": ("other", Settings(tasks=(Exact(last=3, rule=Bits((5, 4, 3))),), batch_size=8, seed=4)),
}


@pytest.mark.parametrize("name", WHOLE_RUNS)
def test_the_same_bits_in_tflm(name, tmp_path):
    require("tflm")
    model, settings = WHOLE_RUNS[name]
    found = [trained(model, settings, runtime, tmp_path) for runtime in ("litert", "tflm")]
    assert found[0] == found[1]


def test_the_batch_of_the_model_changes_nothing(tmp_path):
    """Splits a minibatch into parts: samples are led back one by one, and kept errors lie one behind the other."""
    settings = Settings(tasks=(Exact(last=ResidualBlocks()),), batch_size=8, seed=1)
    x, y = samples_of(load_model(SOURCES["residual"]()))
    weights = []
    for batch in (2, 8):
        zo = inject(SOURCES["residual"](), inject_settings(settings, batch=batch))
        trainer = Trainer(zo, settings, "litert")
        trainer.fit(x, y, steps=5, keep="last")
        weights.append({n: w.tolist() for n, w in trainer.runtime.read_weights().items()})
    assert weights[0] == weights[1]


def test_fewer_layers_than_the_tail_has():
    """Takes the last ones, and leads errors back no further than they need."""
    zo = inject(SOURCES["residual"](), nodes=(), tail=ResidualBlocks(2), batch=4)
    metadata = read_metadata(zo)
    steps = {}
    for last in (1, 3, 6):
        plan = lower(zo, metadata, Settings(tasks=(Exact(last=last),), batch_size=4), steps=3, samples=8)
        assert [t.tensors for t in plan.tasks] == [(i,) for i in range(6 - last, 6)]
        steps[last] = [(s.kind, s.source, s.target) for s in plan.program.steps]
    assert steps[1] == [] and steps[3] == steps[6][: len(steps[3])] and len(steps[3]) == 3
    whole = lower(zo, metadata, Settings(tasks=(Exact(last=ResidualBlocks(2)),), batch_size=4), steps=3, samples=8)
    assert [(s.kind, s.source, s.target) for s in whole.program.steps] == steps[6]


@pytest.mark.parametrize("name", ["lenet5", "residual", "depthwise_separable"])
def test_fields_of_errors_are_those_of_the_steps(name):
    """A device has memory for each, so none is left of layers that are not trained."""
    zo = inject_for(load_model(MODELS[name]()), algorithms.exact(), batch=1)
    counts = []
    for last in (1, 2, 3, None):
        settings = dataclasses.replace(algorithms.exact(), layers=last and Last(last))
        program = lower(zo, read_metadata(zo), settings, steps=3, samples=8).program
        used = {0, *program.of_tasks.values(), *(f for step in program.steps for f in (step.source, step.target))}
        assert used == set(range(len(program.fields)))
        counts.append(len(program.fields))
    assert counts == sorted(counts) and counts[0] < counts[-1]


def test_errors_begin_at_the_last_layer():
    """Leads errors through other layers whether those are trained or not."""
    zo = inject(SOURCES["residual"](), nodes=(), tail=ResidualBlocks(2), batch=4)
    names = [zo_layer.layer for zo_layer in read_metadata(zo).trainable]
    settings = Settings(tasks=(Exact(last=ResidualBlocks(2)),), batch_size=4, layers=(names[1], names[-1]))
    lower(zo, read_metadata(zo), settings, steps=3, samples=8)
    without = dataclasses.replace(settings, layers=(names[1],))
    with pytest.raises(SettingsError, match=f"include {names[-1]}, .* gradient of layer {names[1]}"):
        lower(zo, read_metadata(zo), without, steps=3, samples=8)


BLOCKS = r"`tail` must be a number of layers in a model with {} residual blocks \(an ADD that joins two"


@pytest.mark.parametrize(
    ("name", "last", "said"),
    [
        ("lenet5", ResidualBlocks(), BLOCKS.format(0)),
        ("residual", ResidualBlocks(3), BLOCKS.format(2)),
        ("residual", 8, "`tail` must be at most 7, the number of trainable layers"),
        ("residual", "block", r"`tail` must be an integer in 1\.\.64\. Received: 'block'"),
    ],
)
def test_refusals(name, last, said):
    with pytest.raises(ConversionError, match=said):
        inject(SOURCES[name](), nodes=(), tail=last)


def test_a_model_of_another_tail_is_refused():
    settings = Settings(tasks=(Exact(last=ResidualBlocks(2)),), batch_size=4)
    with pytest.raises(
        SettingsError,
        match="`last` must be the tail of the model, which has '1 blocks'.*Inject the original model with",
    ):
        Trainer(inject(SOURCES["residual"](), nodes=(), tail=ResidualBlocks(), batch=4), settings)
    with pytest.raises(
        SettingsError, match="`last` must be the tail of the model, which has none.*Inject the original model with"
    ):
        Trainer(inject(SOURCES["residual"](), nodes=("fc",), batch=4), settings)
    with pytest.raises(SettingsError, match=r"`last` must be an integer in 1\.\.64\. Received: 'block'"):
        Exact(last="block")
    with pytest.raises(SettingsError, match="`n` must be an integer in 1"):
        ResidualBlocks(0)


def test_an_operator_without_a_way_back():
    g = GraphBuilder(4)
    x = g.conv(g.input("image", [1, 8, 8, 2]), "stem", 4)
    y = g.value("distance", x.shape, x.scale, x.zero_point, x.rms)
    g.operator("SQUARED_DIFFERENCE", [x.index, x.index], [y.index])
    z = g.conv(y, "behind", 4)
    model = g.build([g.dense(g.flatten(z, "flat"), "fc", 3, Activation.NONE)])
    with pytest.raises(
        ConversionError,
        match="`tail` must have exact gradients: errors do not pass back through the SQUARED_DIFFERENCE of",
    ):
        inject(model, nodes=(), tail=3)
    assert len(read_metadata(inject(model, nodes=(), tail=2)).tail.layers) == 2
