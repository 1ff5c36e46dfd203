"""Runs that measure and keep their best state: the desktop's log and weights, after a reset, too."""

import itertools
import re
from pathlib import Path

import pytest

from device.emulation import ARGUMENT, LOG, OK, ORDER, SAMPLE, Device, Samples, Store, needs_compiler
from device.runs import EACH_RUN, RUNS, STEPS, WEIGHT_RUNS, desktop, device, train, yardstick
from helpers.examples import slow_but
from tflm_zo.logs import Log

pytestmark = needs_compiler
EVERY = (1, 2, 4)  # 4: the last measurement comes earlier than the others let expect


def written(store: Store, count: int) -> bytes:
    """The log in a store, with zeros, as in a file, where a slot is still erased: that of a best state that is the
    initial one.
    """
    return re.sub(rb"\xff{64,}", lambda erased: bytes(len(erased[0])), store.content(count))


def measuring(made: Device, every: int) -> Device:
    """Starts measuring after a reset."""
    assert made.init() == OK
    assert made.keep_best(Samples(yardstick()), every) == OK
    return made


@pytest.mark.parametrize("every", slow_but((2,), EVERY))
@pytest.mark.parametrize("name", EACH_RUN)
def test_log_and_best_state_are_the_desktops(name: str, every: int) -> None:
    expected, made, store = desktop(name, measure_every=every), device(name), Store()
    measuring(made, every)
    made.set_log(store)
    assert made.restore_best()[0] == ORDER  # the run is not over
    stores = [Store()]  # after each step
    while made.step < STEPS:
        assert made.train_step()[0] == OK
        stores.append(Store(content=store.bytes.tobytes()))
    assert written(store, len(expected.log)) == expected.log
    if name in WEIGHT_RUNS:
        assert made.log_bytes == len(expected.log)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert made.keep_best(Samples(yardstick()), every) == ORDER
    status, best = made.restore_best()
    assert status == OK
    assert made.export_weights() == (OK, expected.kept.weights)
    assert expected.states[best.step].weights == expected.kept.weights

    # Resets after each step: the same log, the same best state.
    for step, store in enumerate(stores):
        assert made.init() == OK
        if step:
            assert made.import_log(store) == LOG  # of a run that measures
        measuring(made, every)
        assert made.import_log(store) == (OK if step else LOG)
        made.set_log(store)
        train(made)
        assert written(store, len(expected.log)) == expected.log
        assert made.restore_best()[0] == OK
        assert made.export_weights() == (OK, expected.kept.weights)


@pytest.mark.slow
def test_the_best_states_are_at_different_places(tmp_path: Path) -> None:
    found, passed_over = set(), 0
    for name, every in itertools.product(RUNS, EVERY):
        expected = desktop(name, measure_every=every)
        found.add(next(i for i, s in enumerate(expected.states) if s.weights == expected.kept.weights))
        path = tmp_path / "log"
        path.write_bytes(expected.log)
        log = Log.read(path)
        least = min(log.measurements, key=lambda m: m.loss_sum)
        passed_over += least.correct < log.measurements[0].correct
    assert 0 in found and len(found) > 2  # the first state, and others
    assert passed_over > 2  # a smaller loss with fewer right outputs


@pytest.mark.parametrize("name", EACH_RUN)
def test_a_measurement_that_fails_is_done_by_the_next_call(name: str) -> None:
    expected, made = desktop(name, measure_every=2), device(name)
    for step, read in itertools.product(range(STEPS + 1), (1, 5)):
        measured, store = Samples(yardstick()), Store()
        assert made.init() == OK
        assert made.keep_best(measured, 2) == OK
        made.set_log(store)
        train(made, step - 1)
        measured.fail_at(read)
        status, report = made.train_step()
        measured.fail_at(0)
        if step in (0, 2, 4, 6):
            assert (status, report.step_done) == (SAMPLE, int(step > 0))
        train(made)
        assert made.train_step()[0] == OK  # the measurement after the last step
        assert written(store, len(expected.log)) == expected.log
        assert made.restore_best()[0] == OK
        assert made.export_weights() == (OK, expected.kept.weights)


def test_wrong_yardsticks() -> None:
    made = device("node")
    none = Samples(yardstick())
    none.c.count = 0
    assert made.keep_best(none, 2) == ARGUMENT
    assert made.keep_best(Samples(yardstick()), 0) == ARGUMENT
    made.set_log(store := Store())
    train(made)
    assert store.content(len(desktop("node").log)) == desktop("node").log
    assert made.restore_best()[0] == ORDER
