"""Sequences on a device: the stand-in reads them step by step, and gives the desktop's losses, log and weights."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from device.emulation import LABEL, OK, ORDER, RUNTIME, SAMPLE, Device, Store, needs_compiler
from device.runs import Desktop, generated, run_on_desktop
from device.structs import Samples
from helpers.models.streaming_networks import FEATURES, with_variables
from tflm_zo import Model, load_model
from tflm_zo.converters import inject
from tflm_zo.converters.segments import with_batch
from tflm_zo.data import Data, Inputs, prepare
from tflm_zo.runtime import load
from tflm_zo.training import Settings, Weights

STEPS, SAMPLES, LENGTH = 4, 10, 5
SETTINGS = Settings(tasks=(Weights(queries=2),), batch_size=2, seed=3, learning_rate=8.0)


@cache
def zo_model(outputs: int) -> Model:
    given: Any = {"loss": "auto" if outputs else "mse"}
    made = inject(
        with_variables(outputs, initial=5), trainable="all", nodes=(), batch=2, headroom=1, replay=True, **given
    )
    return load_model(made.to_bytes())


@cache
def samples(outputs: int, count: int = SAMPLES) -> Data:
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, (count, LENGTH, FEATURES)).astype(np.int8)
    if outputs == 0:
        return prepare(Inputs(zo_model(0)), x, rng.integers(-128, 128, (count, LENGTH, 3)).astype(np.int8))
    y = np.repeat(rng.integers(0, max(2, outputs), (count, 1)), LENGTH, 1)
    y[1, :2] = y[3] = -1
    return prepare(Inputs(zo_model(outputs)), x, y)


def device(outputs: int, data: Data | None = None) -> Device:
    model, own = zo_model(outputs), samples(outputs)
    made = Device(generated(model, SETTINGS, own, steps=STEPS), model, data or own)
    assert made.init() == OK
    return made


@needs_compiler
@pytest.mark.parametrize("outputs", [1, 4, 0])
def test_a_run_is_the_desktops(outputs: int) -> None:
    model, data = zo_model(outputs), samples(outputs)
    expected = run_on_desktop(model, SETTINGS, data, steps=STEPS)
    made = device(outputs)
    status, found = made.evaluate()
    labelled = SAMPLES if outputs == 0 else SAMPLES - 1
    assert (status, found.samples, found.correct) == (OK, labelled, 0)
    unit = zo_loss_unit(model)
    assert abs(found.loss / labelled / 65536 * unit - expected.before["loss"]) < 2e-4 * unit
    store = Store()
    assert (made.init(), made.set_log(store), made.checksum()) == (OK, OK, expected.states[0].checksum)
    check_steps(made, expected, store)
    assert made.export_weights() == (OK, expected.states[-1].weights)


def check_steps(made: Device, expected: Desktop, store: Store) -> None:
    """Trains to the end: losses, weights and log are the desktop's."""
    for number in range(made.step, STEPS):
        status, report = made.train_step()
        assert (status, report.mean_loss, made.settle()) == (OK, expected.losses[number], OK)
        assert made.checksum() == expected.states[number + 1].checksum
    assert store.content(len(expected.log)) == expected.log


def zo_loss_unit(model: Model) -> float:
    return Inputs(model).metadata.loss_unit


@needs_compiler
def test_power_fails_within_a_sequence() -> None:
    """The log is that of the last whole step, and the run continues with the same bits."""
    expected = run_on_desktop(zo_model(1), SETTINGS, samples(1), steps=STEPS)
    invokes = LENGTH * 2 * 2  # of a step: two queries, on both sides
    for failing in (3, invokes - 1, invokes + 2, 2 * invokes + LENGTH - 1):
        made, store = device(1), Store()
        assert made.set_log(store) == OK
        made.fail_invokes(failing)
        done = 0
        while made.train_step()[0] == OK:
            done += 1
        assert done == (failing - 1) // invokes
        made.fail_invokes()
        assert (made.reset(), made.import_log(store), made.set_log(store)) == (OK, OK, OK)
        assert made.step == done
        check_steps(made, expected, store)


@needs_compiler
def test_reads_that_fail_within_a_sequence() -> None:
    expected = run_on_desktop(zo_model(1), SETTINGS, samples(1), steps=STEPS)
    made, store = device(1), Store()
    assert made.set_log(store) == OK
    for number in (2, 7, 23):
        made.samples.fail_at(number)
        assert made.train_step()[0] == SAMPLE
        made.samples.fail_at(0)
    check_steps(made, expected, store)


@needs_compiler
def test_labels_of_a_later_step_are_checked() -> None:
    data = samples(1)
    labels = data.labels.copy()
    labels[:, LENGTH - 1] = 2
    made = device(1, Data(data.inputs, labels, data.steps))
    before = made.checksum()
    assert made.train_step()[0] == LABEL
    assert made.settle() == OK and made.checksum() == before


@needs_compiler
def test_predict_follows_a_stream() -> None:
    model, data, made = zo_model(4), samples(4), device(4)
    runtime = load(with_batch(model, 1), RUNTIME)
    runtime.feed([data.inputs[0][2:3]], None)
    runtime.invoke()
    expected = runtime.outputs()[0][0]

    def stream() -> list[bytes]:
        found = [made.stream(2 * LENGTH + step, continues=step > 0) for step in range(LENGTH)]
        assert all(status == OK for status, _ in found)
        return [output for _, output in found]

    assert made.stream(0, continues=True)[0] == ORDER
    assert stream() == stream() == [output.tobytes() for output in expected]
    assert made.evaluate()[0] == OK
    assert made.stream(0, continues=True)[0] == ORDER
    assert made.train_step()[0] == OK
    assert made.stream(0, continues=True)[0] == ORDER
    assert made.stream(0, continues=False)[0] == OK


@needs_compiler
def test_a_device_that_trains_on_single_steps_streams() -> None:
    """Samples of one step are sequences, too, for a model that streams."""
    model, data = zo_model(4), samples(4)
    steps = prepare(Inputs(model), data.inputs[0][:, 0], np.arange(SAMPLES) % 4)
    made = Device(generated(model, SETTINGS, steps, steps=STEPS), model, steps)
    assert made.init() == OK and made.train_step()[0] == OK
    runtime = load(with_batch(model, 1), RUNTIME)
    assert made.reset() == OK
    runtime.feed([steps.inputs[0][None, :3]], None)
    runtime.invoke()
    found = [made.stream(step, continues=step > 0) for step in range(3)]
    assert found == [(OK, output.tobytes()) for output in runtime.outputs()[0][0]]


@needs_compiler
def test_best_state_of_sequences() -> None:
    """Measurements count no right answers of sequences, and their data are those of all steps."""
    made = device(1)
    assert made.keep_best(Samples(samples(1)), 2) == OK
    while made.step < STEPS:
        assert made.train_step()[0] == OK
