# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Exact tails on a device, through every kind of step and from every loss: the desktop's log and weights."""

from __future__ import annotations

import pytest

from device.emulation import OK, Device, Store, needs_compiler
from device.runs import STEPS, generated, run_on_desktop
from helpers.exact_gradients import samples
from helpers.examples import slow_but
from helpers.models import MODELS
from helpers.models.node_networks import attention, other_operators, parts
from tflm_zo import load_model
from tflm_zo.data import Data
from tflm_zo.training import Exact, Settings, inject_for

pytestmark = needs_compiler

#: Networks with their losses and numbers of layers.
TAILS = {
    "other operators": (other_operators, "cross_entropy", 4),
    "parts": (parts, "cross_entropy", 4),
    "attention": (attention, "cross_entropy", 6),
    "several labels": (MODELS["logistic_head"], "binary_cross_entropy", 1),
    "regression": (MODELS["autoencoder"], "mse", 3),
}


@pytest.mark.parametrize("name", slow_but(("parts", "regression"), TAILS))
def test_the_run_is_the_desktops(name: str) -> None:
    network, loss, last = TAILS[name]
    plain = load_model(network())
    settings = Settings(tasks=(Exact(last=last),), batch_size=2, seed=4, snapshot_every=2)
    zo = load_model(inject_for(plain, settings, loss=loss).to_bytes())
    x, y = samples(plain, 10, 2, loss)
    data = Data([x], y)
    expected = run_on_desktop(zo, settings, data)
    made = Device(generated(zo, settings, data), zo, data)
    assert made.init() == OK
    made.set_log(store := Store())
    for step in range(STEPS):
        status, report = made.train_step()
        assert (status, report.mean_loss) == (OK, expected.losses[step])
    assert store.content(len(expected.log)) == expected.log
    assert made.checksum() == expected.states[-1].checksum != expected.states[0].checksum
