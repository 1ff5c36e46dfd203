"""Calls in another order than the guide's: what is reported as kept is kept, an impossible call changes nothing."""

import pytest

from device.emulation import LOG, OK, ORDER, RUNTIME_FAILED, SAMPLE, STORE, Device, Samples, Store, needs_compiler
from device.runs import EACH_RUN, EACH_WEIGHT_RUN, STEPS, WEIGHT_RUNS, desktop, device, samples, train, yardstick
from device.test_weights import run_from
from helpers.examples import slow_but
from tflm_zo.data import Data

pytestmark = needs_compiler


def whole(store: Store) -> bytes:
    return store.content(len(store.bytes))


def check_export(made: Device, store: Store, name: str) -> None:
    """Checks that `ExportLog` leaves the log unchanged; to that of a layer-wise run it may add a snapshot."""
    before = whole(store)
    status = made.export_log(store)
    if name in WEIGHT_RUNS:
        assert (status, whole(store)) == (OK, before)
        return
    assert status in (OK, ORDER)  # within a step there are no weights to be kept
    if status == ORDER:
        assert whole(store) == before
    else:
        exported = whole(store)
        assert (made.export_log(store), whole(store)) == (OK, exported)


@pytest.mark.parametrize("every", [0, 2])
@pytest.mark.parametrize("name", EACH_RUN)
def test_a_log_is_exported_at_every_point_of_a_run(name: str, every: int) -> None:
    wanted, made, store = desktop(name, 1, every), device(name), Store()

    def boot() -> None:
        assert made.init() == OK
        if every:
            assert made.keep_best(Samples(yardstick()), every) == OK
        assert made.import_log(store) == (OK if begun else LOG)
        if begun:
            check_reached()
        assert made.set_log(store) == OK

    def check_reached() -> None:
        before = whole(store)
        assert made.export_log(store) == (OK if made.step == 0 else ORDER)  # it is not given yet
        assert whole(store) == before

    begun = False
    boot()
    check_export(made, store, name)
    slices = 0
    while made.step < STEPS:
        status, report = made.train_slice()
        assert status == OK
        slices += 1
        begun = True
        check_export(made, store, name)
        if report.step_done and made.step % 2:
            step = made.step
            boot()
            assert made.step == step
            check_export(made, store, name)
        if report.step_done:
            assert made.settle() == OK
            check_export(made, store, name)
    assert slices > STEPS
    boot()
    assert (made.step, made.export_weights()) == (STEPS, (OK, wanted.states[-1].weights))
    check_export(made, store, name)
    if name in WEIGHT_RUNS:
        assert store.content(len(wanted.log)) == wanted.log


@pytest.mark.parametrize("name", EACH_RUN)
def test_a_log_that_does_not_have_the_steps_so_far_is_refused(name: str) -> None:
    made, first, second = device(name), Store(), Store()
    for set_first in (False, True):
        assert made.init() == OK
        if set_first:
            assert made.set_log(first) == OK
        assert made.train_step()[0] == OK
        before = whole(first)
        assert (made.set_log(second), made.export_log(second)) == (ORDER, ORDER)
        assert made.set_log(first) == (OK if set_first else ORDER)
        assert (whole(first), whole(second)) == (before, whole(Store()))
        # Steps that are done without it, too.
        assert made.set_log(None) == OK
        assert made.train_step()[0] == OK
        assert (made.set_log(first), made.export_log(first)) == (ORDER, ORDER)
        assert (whole(first), whole(second)) == (before, whole(Store()))
        assert made.export_weights() == (OK, desktop(name).states[2].weights)


@pytest.mark.parametrize("name", EACH_RUN)
def test_a_log_that_is_given_within_the_first_step_has_it(name: str) -> None:
    made, store, wanted = device(name), Store(), desktop(name)
    status, report = made.train_slice()
    assert (status, report.step_done) == (OK, 0)
    assert made.set_log(store) == OK
    while made.step < STEPS:
        assert made.train_slice()[0] == OK
    assert store.content(len(wanted.log)) == wanted.log


@pytest.mark.parametrize("every", [0, 2])
@pytest.mark.parametrize("name", EACH_WEIGHT_RUN)
def test_an_older_run_never_goes_on_from_a_newer_one(name: str, every: int) -> None:
    """Uses equal samples in the first steps, so that the records are equal, and an older record follows."""
    made, left, tried = device(name), b"", 0

    def boot(store: Store, expected: int) -> None:
        assert made.init() == OK
        if every:
            assert made.keep_best(Samples(yardstick()), every) == OK
        if expected != LOG:
            assert made.import_log(store) == expected
        assert made.set_log(store) == OK

    for changed in (None, *range(len(samples()))):
        x = samples().inputs[0].copy()
        if changed is not None:
            x[changed] = 127 - x[changed] // 2
        made.samples = Samples(Data([x], samples().labels))
        store = Store(content=left)
        boot(store, LOG)
        for step in range(1, STEPS + 1):
            assert made.train_step()[0] == OK
            weights = made.export_weights()
            tried += changed is not None and whole(store)[:160] == left[:160]
            boot(store, OK)
            assert (made.step, made.export_weights()) == (step, weights)
        left = left or whole(store)
    assert tried


@pytest.mark.parametrize("name", slow_but(("weight", "node"), [*WEIGHT_RUNS[:2], "node", "exact head"]))
def test_a_log_that_other_samples_have_measured_is_refused(name: str) -> None:
    made, store, content = device(name), Store(), []
    data = yardstick()
    fewer = Data([data.inputs[0][:5]], data.labels[:5])
    other = Data([data.inputs[0]], (data.labels + 1) % 4)
    assert made.keep_best(Samples(data), 2) == OK
    assert made.set_log(store) == OK
    for step in range(STEPS):
        assert made.train_step()[0] == OK
        if step in (0, 3):
            content.append(whole(store))
    for left in (*content, whole(store)):
        for measured, expected in ((fewer, LOG), (other, LOG), (data, OK)):
            kept = Store(content=left)
            assert made.init() == OK
            assert made.keep_best(Samples(measured), 2) == OK
            own = made.export_weights()
            assert made.import_log(kept) == expected
            assert whole(kept) == left
            if expected == LOG:
                assert (made.step, made.export_weights()) == (0, own)


@pytest.mark.parametrize("name", slow_but(("weight", "node"), ["weight", "weight, 16 bits", "node", "exact head"]))
def test_weights_of_no_step_are_nobodys(name: str) -> None:
    """Reads only a part of a best state, or of a log: every use is refused until it is complete."""
    wanted, made, store = desktop(name, 1, 2), device(name), Store()
    assert made.keep_best(Samples(yardstick()), 2) == OK
    assert made.set_log(store) == OK
    while made.train_step()[1].step_done:
        pass
    undefined = 0
    for calls in (lambda: made.restore_best()[0], lambda: made.import_log(store)):
        for read in range(1, 200):
            store.fail_read_at(read)
            status, done = calls(), store.c.reads < read
            store.fail_read_at(0)
            if done:
                assert status == OK
                break
            assert status == STORE
            status, found = made.export_weights()
            if status == ORDER:
                undefined += 1
                assert made.train_step()[0] == ORDER
                assert made.settle() == ORDER
                assert made.evaluate()[0] == ORDER
            else:
                assert (status, found) in {(OK, wanted.states[-1].weights), (OK, wanted.kept.weights)}
    assert undefined
    assert made.restore_best()[0] == OK
    assert made.export_weights() == (OK, wanted.kept.weights)


@pytest.mark.parametrize("name", ["weight", "node"])
def test_weights_that_are_set_after_a_failed_restore_stay(name: str) -> None:
    """Lets the invoke fail that sets the initial weights: the next one overwrites no others."""
    made, begun, full, given = device(name), Store(), Store(), desktop(name, 2).states[-1].weights
    assert made.set_log(full) == OK
    train(made)
    begun.bytes[:] = full.bytes
    header = int.from_bytes(full.content(12)[10:], "little")
    begun.bytes[header:] = 0xFF

    def fail() -> None:
        assert made.init() == OK
        made.fail_invokes(1, before=True)
        assert made.import_log(begun) == RUNTIME_FAILED
        made.fail_invokes()

    fail()
    assert made.import_weights(Store(content=given)) == OK
    assert made.train_step()[0] == OK
    assert made.export_weights() == (OK, run_from(name, given, samples()).states[1].weights)
    fail()
    assert made.import_log(full) == OK
    assert made.predict(0)[0] == OK
    assert made.export_weights() == (OK, desktop(name).states[-1].weights)


@pytest.mark.parametrize("name", ["weight", "node"])
def test_a_yardstick_that_could_not_be_read_changes_nothing(name: str) -> None:
    """Keeps the old one in the run and in its log."""
    made, store, other = device(name), Store(), Samples(yardstick())
    assert made.keep_best(Samples(yardstick()), 2) == OK
    own = made.yardstick
    other.fail_at(14)
    assert made.keep_best(other, 2) == SAMPLE
    assert made.set_log(store) == OK
    assert made.train_step()[0] == OK
    assert made.init() == OK
    assert made.keep_best(own, 2) == OK
    assert made.import_log(store) == OK


def test_a_run_after_one_whose_log_could_not_be_read_has_its_snapshots() -> None:
    made, store, given = device("node"), Store(), Store(content=desktop("node", 2).states[-1].weights)
    assert made.set_log(store) == OK
    assert [made.train_step()[0] for _ in range(2)] == [OK, OK]
    for read in range(1, 200):
        store.fail_read_at(read)
        made.import_log(store)
        store.fail_read_at(0)
        if made.export_weights()[0] == ORDER:
            break
    assert made.import_weights(given) == OK
    assert [made.train_step()[0] for _ in range(2)] == [OK, OK]
    weights = made.export_weights()
    assert made.init() == OK
    assert (made.import_weights(given), made.import_log(store)) == (OK, OK)
    assert (made.step, made.export_weights()) == (2, weights)


@pytest.mark.parametrize("name", WEIGHT_RUNS[:2])
def test_a_snapshot_before_the_first_step_is_of_its_own_run(name: str) -> None:
    """Uses another log, or another yardstick, before the weights."""
    made, given = device(name), desktop(name, 2).states[-1].weights
    log = desktop(name).log
    full, empty = Store(content=log), Store(content=log[: int.from_bytes(log[10:12], "little")])
    assert made.import_log(empty) == OK
    assert made.import_weights(Store(content=given)) == OK
    status, mark = made.snapshot_mark()
    assert (status, made.init()) == (OK, OK)
    assert made.import_log(full, (Store(content=given), 0, mark)) == OK
    assert made.export_weights() == (OK, desktop(name).states[-1].weights)
    assert made.init() == OK
    own, mark = made.export_weights()[1], made.snapshot_mark()[1]
    made.fail_invokes(1, before=True)  # the model's own weights are not set again
    assert made.import_log(full, (Store(content=own), 0, mark)) == OK
    made.fail_invokes()
    assert made.export_weights() == (OK, desktop(name).states[-1].weights)
