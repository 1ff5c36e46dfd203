"""A device's run is the desktop's, bit for bit; in slices, and with every compiler."""

import shutil

import numpy as np
import pytest

from device.compiled import GCC, GXX, build
from device.emulation import OK, ORDER, RUNTIME_FAILED, Device, Samples, Store, needs_compiler
from device.runs import (
    EACH_RUN,
    EACH_WEIGHT_RUN,
    RUNS,
    SAMPLES,
    STEPS,
    WEIGHT_RUNS,
    desktop,
    device,
    generated,
    samples,
    train,
    yardstick,
    zo_model,
)
from helpers.examples import slow_but
from tflm_zo.converters import read_metadata

pytestmark = needs_compiler


@pytest.mark.parametrize("name", EACH_RUN)
def test_the_run_is_the_desktops(name: str) -> None:
    expected, made, store = desktop(name), device(name), Store()

    def check_evaluation(wanted: dict[str, float]) -> None:
        status, found = made.evaluate()
        assert (status, found.samples) == (OK, SAMPLES)
        assert found.correct == round(wanted["accuracy"] * SAMPLES)
        assert abs(found.loss / SAMPLES / 65536 - wanted["loss"]) < 2e-4

    check_evaluation(expected.before)
    made.set_log(store)
    losses = []
    for step in range(STEPS):
        status, report = made.train_step()
        assert (status, report.step_done, report.step) == (OK, 1, step)
        losses.append(report.mean_loss)
    assert losses == expected.losses
    status, report = made.train_step()
    assert (status, report.step_done, made.step) == (OK, 0, STEPS)
    assert store.content(len(expected.log)) == expected.log
    assert (store.bytes[len(expected.log) :] == 0xFF).all()
    assert made.log_bytes == (len(expected.log) if name in WEIGHT_RUNS else 0)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert made.checksum() == expected.states[-1].checksum
    check_evaluation(expected.after)
    # Weights of every step, evaluated in between: it changes no bit of the run.
    assert made.init() == OK
    for step, state in enumerate(expected.states):
        assert made.export_weights() == (OK, state.weights)
        assert made.checksum() == state.checksum
        if step < STEPS:
            assert made.evaluate(0, 1)[0] == OK
            assert made.train_step()[0] == OK
    assert len({state.checksum for state in expected.states[:-1]}) == STEPS  # every step but the last moves


@pytest.mark.parametrize("name", EACH_RUN)
def test_outputs_are_the_models(name: str) -> None:
    expected, made = desktop(name), device(name)
    train(made)
    assert made.settle() == OK
    found = []
    for first in range(0, SAMPLES, read_metadata(zo_model(name)).batch):
        status, outputs = made.infer(first)
        assert status == OK
        found.append(outputs)
    np.testing.assert_array_equal(np.concatenate(found), expected.outputs)


# --- slices -----------------------------------------------------------------------------------------------


#: Shortcuts carry outputs of other layers to trained ones, or errors share the arena.
WITHOUT_ROOM = ("residual, behind a prefix", "residual, exact, least memory", "exact, computed again")


def finish(made: Device, name: str, store: Store, *, answers: bool = True, fails: bool = False) -> int:
    """Trains to the end in slices; returns how many there were."""
    expected, slices, rng = desktop(name), 0, np.random.default_rng(3)
    other, held_out = Samples(samples(8, 3)), Samples(yardstick())
    while made.step < STEPS:
        if fails and rng.integers(3) == 0:
            made.fail_invokes(int(rng.integers(1, 4)), before=bool(rng.integers(2)))
        status, report = made.train_slice()
        assert status in (OK, RUNTIME_FAILED) if fails else status == OK
        slices += status == OK
        is_in_step = status == OK and not report.step_done  # a slice that fails gives its step up
        if not answers:
            continue
        status, _ = made.evaluate(of=other)
        while fails and status == RUNTIME_FAILED:  # a call that has failed is repeated
            status, _ = made.evaluate(of=other)
        refused = name in WITHOUT_ROOM and not report.step_done
        assert status == (ORDER if refused else OK)
        made.fail_invokes()
        assert made.evaluate(of=held_out)[0] == status
        weights = made.export_weights()
        assert weights[0] == OK
        if name in WEIGHT_RUNS:
            assert weights[1] == expected.states[made.step].weights
        if slices == 1 and is_in_step:
            assert made.keep_best(held_out, 1) == ORDER and made.import_weights(Store()) == ORDER
            assert name in WEIGHT_RUNS or made.export_log(Store()) == ORDER
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert store.content(len(expected.log)) == expected.log
    return slices


@pytest.mark.parametrize("name", EACH_RUN)
def test_slices_lead_where_steps_do(name: str) -> None:
    made, store = device(name), Store()
    made.set_log(store)
    slices = finish(made, name, store)
    assert slices >= 2 * STEPS
    print(f"{name}: {slices} slices")


@pytest.mark.parametrize("name", slow_but(["weight, segments"], WEIGHT_RUNS))
def test_invokes_that_fail_between_slices(name: str) -> None:
    made, store = device(name), Store()
    made.set_log(store)
    finish(made, name, store, fails=True)


@pytest.mark.parametrize(
    "name", ["weight, segments", "node", "nodes and weights", "residual, exact, least memory", "exact, computed again"]
)
def test_power_fails_between_slices(name: str) -> None:
    made, store = device(name), Store()
    made.set_log(store)
    for count in range(1, 200):
        assert made.train_slice()[0] == OK
        if count % 23 == 0:
            before = made.step
            assert made.init() == OK and made.import_log(store) == OK
            assert made.step == before if name in WEIGHT_RUNS else made.step <= before
            made.set_log(store)
    finish(made, name, store)


@pytest.mark.parametrize("name", EACH_WEIGHT_RUN)
def test_weights_of_the_step_in_progress_are_nobodys(name: str) -> None:
    """After a slice the weights in memory are a query's; they are so again once something else was done."""
    made, differ = device(name), 0
    whole = made.checksum()
    while not made.train_slice()[1].step_done:
        moved = made.checksum()
        differ += moved != whole
        assert made.settle() == OK and made.checksum() == whole
    assert differ > 0


# --- compilers --------------------------------------------------------------------------------------------


ABI = ("-funsigned-char", "-fshort-enums")
#: LLVM's linker plugin is no part of GNU's linker, so clang has no -flto here.
BUILDS = [
    ("gcc", ("-O3", "-flto", *ABI)),
    ("clang", ("-O2", *ABI)),
    *(
        (compiler, flags)
        for compiler in ("gcc", "clang")
        for flags in (("-O0", "-funsigned-char"), ("-Os",), ("-O2", "-fshort-enums"), ("-O3",))
    ),
]
#: The first one with the build that the fast tests have.
NAMES = ("nodes and weights", "weight", "residual, exact tail")
CASES = [
    pytest.param(
        *build,
        name,
        marks=() if build == BUILDS[i] and i == 0 else pytest.mark.slow,
        id=f"{build[0]}{''.join(build[1])}-{name}",
    )
    for i, name in enumerate(NAMES)
    for build in BUILDS
]


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "flags", "name"), CASES)
def test_the_same_bits(compiler: str, flags: tuple[str, ...], name: str) -> None:
    tools = (GCC, GXX) if compiler == "gcc" else (shutil.which("clang"), shutil.which("clang++"))
    if None in tools:
        pytest.skip(f"NO {compiler}: NO DEVICE WAS BUILT WITH IT")
    model = zo_model(name)
    firmware = generated(model, RUNS[name][1], samples())
    made = Device(firmware, model, samples(), path=build(firmware, flags, tools))
    expected, store = desktop(name), Store()
    assert (made.init(), made.set_log(store)) == (OK, OK)
    reports = [made.train_step() for _ in range(STEPS)]
    assert [(status, report.mean_loss) for status, report in reports] == [(OK, loss) for loss in expected.losses]
    assert store.content(len(expected.log)) == expected.log
    # Weight perturbation moves the weights of its last step when they are asked for.
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert made.checksum() == expected.states[-1].checksum
