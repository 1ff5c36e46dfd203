"""Sums of losses on a device: the stand-in's losses, log and weights are the desktop's."""

import numpy as np
import pytest

from device.emulation import OK, Device, Store, needs_compiler
from device.runs import generated, run_on_desktop
from helpers.models.detectors import detector_samples, injected_detector
from tflm_zo import load_model
from tflm_zo.data import Inputs, prepare
from tflm_zo.training import Exact, Nodes, Settings, Weights

STEPS = 4
RUNS = {
    "grid, every layer exact": ("grid", Settings(tasks=(Exact(last=2),), batch_size=2, seed=1, snapshot_every=2)),
    "grid, weights": ("grid", Settings(tasks=(Weights(queries=2),), batch_size=2, seed=2, learning_rate=20.0)),
    "two heads, nodes": ("heads", Settings(tasks=(Nodes(queries=2),), batch_size=2, seed=3, snapshot_every=2)),
}


@needs_compiler
@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_the_desktops(name: str) -> None:
    network, settings = RUNS[name]
    model = load_model(injected_detector(network, settings).to_bytes())
    data = prepare(Inputs(model), *detector_samples(network, np.random.default_rng(1), 8))
    expected = run_on_desktop(model, settings, data, steps=STEPS)
    made, store = Device(generated(model, settings, data, steps=STEPS), model, data), Store()
    assert (made.init(), made.set_log(store)) == (OK, OK)
    status, found = made.evaluate()
    unit = Inputs(model).metadata.loss_unit
    labelled = int((data.labels >= 0).any(1).sum())
    assert (status, found.samples, found.correct) == (OK, labelled, 0)
    assert abs(found.loss / labelled / 65536 * unit - expected.before["loss"]) < 2e-4 * unit
    for number in range(STEPS):
        status, report = made.train_step()
        assert (status, report.mean_loss, made.settle()) == (OK, expected.losses[number], OK)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert store.content(len(expected.log)) == expected.log
