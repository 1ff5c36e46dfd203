"""Layers that a run leaves out take no RAM on a device, and change no bit of the run."""

import dataclasses

import pytest

from device.emulation import OK, Device, needs_compiler
from device.runs import RUNS, check_run, generated, run_on_desktop, samples, zo_model
from helpers import exact_gradients
from helpers.examples import slow_but
from helpers.models import MODELS
from helpers.models.node_networks import attention, other_operators, parts, places
from tflm_zo import load_model
from tflm_zo.converters import read_metadata
from tflm_zo.data import Data
from tflm_zo.firmware import Firmware
from tflm_zo.runtime import load
from tflm_zo.training import Exact, Settings, Weights, inject_for
from tflm_zo.training.evaluation import evaluate

pytestmark = needs_compiler

#: Runs with the layers that each trains. The exact tail leads errors through layers that it does not train.
SOME = {
    "node": ("fc",),
    "exact head": ("fc",),
    "residual, every layer": ("block1/conv0", "fc"),
    "residual, exact tail": ("stem", "block0/conv1", "fc"),
    "biases, too": ("conv",),
    "residual, biases beside": ("fc",),
    "nodes and weights": ("conv",),
}


def firmware(name: str, layers: tuple[str, ...] | None) -> Firmware:
    return generated(zo_model(name), dataclasses.replace(RUNS[name][1], layers=layers), samples())


@pytest.mark.parametrize("name", slow_but(("exact head",), SOME))
def test_the_run_is_the_desktops(name: str) -> None:
    settings = dataclasses.replace(RUNS[name][1], layers=SOME[name])
    expected = run_on_desktop(zo_model(name), settings, samples())
    made = Device(firmware(name, SOME[name]), zo_model(name), samples())
    store = check_run(made, expected)
    # A reset in the middle of a run: the log leads back to where it was.
    assert made.init() == OK and made.import_log(store) == OK
    assert made.checksum() == expected.states[made.step].checksum


@pytest.mark.parametrize("name", slow_but(("residual, exact tail",), SOME))
def test_ram_of_layers_that_are_left_out(name: str) -> None:
    whole, part = firmware(name, None), firmware(name, SOME[name])
    metadata = read_metadata(zo_model(name))
    if len({t.layer for t in metadata.trainable}) > len(SOME[name]):
        assert part.trainable_bytes < whole.trainable_bytes
        assert part.ram.arena.bytes <= whole.ram.arena.bytes


# --- exact tails, through every kind of step and from every loss ------------------------------------------


#: Networks with their losses and numbers of layers.
TAILS = {
    "other operators": (other_operators, "cross_entropy", 4),
    "parts": (parts, "cross_entropy", 4),
    "attention": (attention, "cross_entropy", 6),
    "places": (places, "cross_entropy", 3),
    "several labels": (MODELS["logistic_head"], "binary_cross_entropy", 1),
    "regression": (MODELS["autoencoder"], "mse", 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(("parts", "places", "regression"), TAILS))
def test_each_tail_is_the_desktops(name: str) -> None:
    network, loss, last = TAILS[name]
    plain = load_model(network())
    settings = Settings(tasks=(Exact(last=last),), batch_size=2, seed=4, snapshot_every=2)
    zo = load_model(inject_for(plain, settings, loss=loss).to_bytes())
    x, y = exact_gradients.samples(plain, 10, 2, loss)
    data = Data([x], y)
    expected = run_on_desktop(zo, settings, data)
    check_run(Device(generated(zo, settings, data), zo, data), expected)
    assert expected.states[-1].checksum != expected.states[0].checksum


@pytest.mark.parametrize(
    "network, loss", [(MODELS["logistic_head"], "binary_cross_entropy"), (places, "cross_entropy")]
)
def test_samples_without_a_label_do_not_count(network, loss) -> None:
    plain, settings = load_model(network()), Settings(tasks=(Weights(queries=2),), batch_size=2, seed=4)
    zo = load_model(inject_for(plain, settings, loss=loss, batch=2).to_bytes())
    x, y = exact_gradients.samples(plain, 10, 2, loss)
    y[3], y[5, 0] = -1, -1
    data = Data([x], y)
    made, expected = Device(generated(zo, settings, data), zo, data), evaluate(load(zo, "litert"), data)
    assert made.init() == OK
    status, found = made.evaluate(0, 10)
    assert (status, found.samples, found.correct, found.loss) == (OK, 9, 0, expected.loss_sum)
    assert expected.labelled == 9
