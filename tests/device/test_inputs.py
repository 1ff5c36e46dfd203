"""Every input of every segment is fed, also if several segments read one."""

from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest

from device.emulation import OK, Device, needs_compiler
from device.runs import check_run, generated, run_on_desktop
from helpers.injection import inject_all
from helpers.models.node_networks import mixer
from tflm_zo import Model, load_model
from tflm_zo.converters import ConversionError, read_metadata
from tflm_zo.data import Data
from tflm_zo.firmware import tables
from tflm_zo.training import Nodes, Settings

STEPS, SAMPLES = 4, 10
SETTINGS = Settings(tasks=(Nodes(queries=2),), batch_size=2, seed=3, snapshot_every=2)


@cache
def zo_model() -> Model:
    return load_model(inject_all(mixer(), trainable="nodes", nodes="*", headroom=0, replay=False, batch=2).to_bytes())


@cache
def samples() -> Data:
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, (SAMPLES, 6, 8)).astype(np.int8)
    return Data([x], rng.integers(0, 3, SAMPLES).astype(np.int32))


@needs_compiler
def test_two_segments_read_one_input() -> None:
    model, data = zo_model(), samples()
    readers = [k for k, s in enumerate(read_metadata(model).segments) for p in s.inputs if p.role == "input"]
    assert len(readers) == 2
    expected = run_on_desktop(model, SETTINGS, data, steps=STEPS)
    made = Device(generated(model, SETTINGS, data, steps=STEPS), model, data)
    assert made.init() == OK
    status, found = made.evaluate()
    assert status == OK and abs(found.loss / SAMPLES / 65536 - expected.before["loss"]) < 2e-4
    check_run(made, expected)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    outputs = [made.infer(first)[1] for first in range(0, SAMPLES, 2)]
    np.testing.assert_array_equal(np.concatenate(outputs), expected.outputs)


def test_the_generator_sees_that_nothing_feeds_an_input() -> None:
    def last_readers(*given: Any) -> list[tuple[int, ...]]:
        return list({row[2]: row for row in found(*given)}.values())

    found = tables._inputs
    with (
        mock.patch.object(tables, "_inputs", last_readers),
        pytest.raises(ConversionError, match="nothing feeds input 0, `sequence`, of segment 0"),
    ):
        generated(zo_model(), SETTINGS, samples(), steps=STEPS)
