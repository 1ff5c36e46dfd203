"""Weights that a device is given: a run that begins with them, and snapshots that spare a replay."""

import zlib
from typing import Any
from unittest import mock

import numpy as np
import pytest

from device.emulation import ARGUMENT, LOG, OK, ORDER, STORE, Store, needs_compiler
from device.runs import (
    EACH_RUN,
    EACH_WEIGHT_RUN,
    RUNS,
    STEPS,
    WEIGHT_RUNS,
    Desktop,
    desktop,
    device,
    run_on_desktop,
    samples,
    train,
    zo_model,
)
from tflm_zo import Model
from tflm_zo.data import Data
from tflm_zo.training.node_run import NodeRun
from tflm_zo.training.weight_run import WeightRun

pytestmark = needs_compiler


def run_from(
    name: str,
    weights: bytes,
    data: Data | None = None,
    measure_every: int = 0,
    *,
    model: Model | None = None,
    settings: Any = None,
) -> Desktop:
    """Runs on the desktop with other initial weights than the model's own."""

    def begin(run: WeightRun | NodeRun) -> None:
        own(run)
        runtime, at = run._runtime, 0
        parts: list[dict[str, np.ndarray]] = []
        for kind in (runtime.read_weights(), runtime.read_fractions()):
            parts.append({})
            for tensor in runtime.metadata.trainable:
                if tensor.name in kind:
                    parts[-1][tensor.name] = np.frombuffer(weights, tensor.dtype, tensor.size, at).reshape(tensor.shape)
                    at += tensor.nbytes
        runtime.write_weights(*parts)

    kind = WeightRun if name in WEIGHT_RUNS else NodeRun
    own = kind.begin
    with mock.patch.object(kind, "begin", begin):
        return run_on_desktop(
            model or zo_model(name), settings or RUNS[name][1], data or samples(2), measure_every=measure_every
        )


@pytest.mark.parametrize("name", EACH_RUN)
def test_a_run_that_begins_with_weights_it_was_given(name: str) -> None:
    given = desktop(name).states[-1].weights
    expected = run_from(name, given)
    made, store, weights = device(name, 2), Store(), Store(content=given)
    assert made.import_weights(weights) == OK
    assert made.export_weights() == (OK, given)
    made.set_log(store)
    train(made, 4)
    assert made.export_weights() == (OK, expected.states[4].weights)
    assert made.import_weights(weights) == ORDER  # the run has begun
    assert made.export_weights() == (OK, expected.states[4].weights)

    # After a reset: the log is of no run that begins with other weights.
    assert made.init() == OK
    own = made.export_weights()
    assert made.import_log(store) == LOG
    assert made.export_weights() == own
    assert made.import_weights(Store(content=desktop(name).states[2].weights)) == OK
    assert made.import_log(store) == LOG
    assert made.import_weights(weights) == OK
    assert made.import_log(store) == OK
    assert made.export_weights() == (OK, expected.states[made.step].weights)
    made.set_log(store)
    train(made)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    # The log is the desktop's except for the fingerprint of its initial weights, and the checksums that depend on it.
    content = store.content(len(expected.log))
    assert content[:28] == expected.log[:28] and content[28:32] != expected.log[28:32]
    assert content[32:100] == expected.log[32:100]

    # A log of the model's own weights is none of a run that begins with others.
    assert made.init() == OK
    made.set_log(plain := Store())
    train(made, 3)
    assert made.init() == OK
    assert made.import_weights(weights) == OK
    assert made.import_log(plain) == LOG


@pytest.mark.parametrize("name", EACH_RUN)
def test_weights_that_are_none(name: str) -> None:
    made = device(name)
    own = made.export_weights()
    wrong = bytearray(desktop(name).states[-1].weights)
    if "alone" not in name:  # of biases, all values are some
        wrong[30] = 0x80  # -128
        assert made.import_weights(Store(content=bytes(wrong))) == ARGUMENT
        assert made.export_weights() == own
    assert made.import_weights(Store(size=len(wrong) - 1, content=bytes(wrong[:40]))) in (ARGUMENT, STORE)
    assert made.export_weights() == own
    made.set_log(store := Store())
    train(made)
    assert store.content(len(desktop(name).log)) == desktop(name).log


@pytest.mark.parametrize("name", EACH_WEIGHT_RUN)
def test_a_snapshot_bounds_what_is_replayed(name: str) -> None:
    expected, made, store = desktop(name), device(name), Store()
    made.set_log(store)
    snapshots = []
    for step in range(STEPS + 1):
        status, mark = made.snapshot_mark()
        assert (status, made.export_weights()) == (OK, (OK, expected.states[step].weights))
        snapshots.append((Store(content=expected.states[step].weights), step, mark))
        if step < STEPS:
            train(made, step + 1)

    def boot(snapshot: tuple[Store, int, int], *, used: bool) -> None:
        """Boots to the same state with it or without: if it is used, the model's own weights are not set."""
        assert made.init() == OK
        made.fail_invokes()
        assert made.import_log(store, snapshot) == OK
        assert (made.invokes == 0) == used
        assert (made.step, made.export_weights()) == (STEPS, (OK, expected.states[-1].weights))

    for weights, step, mark in snapshots:
        boot((weights, step, mark), used=True)
        boot((weights, step, mark ^ 1), used=False)
        boot((weights, step, snapshots[step - 1][2]), used=False)
        if step < STEPS:
            boot((weights, step + 1, mark), used=False)
    weights, step, mark = snapshots[3]
    for at in range(0, len(expected.states[0].weights), 29):
        damaged = Store(content=expected.states[step].weights)
        damaged.bytes[at] ^= 4
        boot((damaged, step, mark), used=False)
    boot((Store(size=9), step, mark), used=False)

    # It is used while the run goes on, too; of a log that ends before it, it is not.
    assert made.init() == OK
    assert made.import_log(store, snapshots[STEPS]) == OK
    short = Store(content=store.content(made.log_bytes - 1))
    assert made.init() == OK
    assert made.import_log(short, snapshots[STEPS]) == OK
    assert (made.step, made.export_weights()) == (STEPS - 1, (OK, expected.states[-2].weights))
    assert made.init() == OK
    assert made.import_log(short, snapshots[3]) == OK
    made.set_log(short)
    train(made)
    assert made.export_weights() == (OK, expected.states[-1].weights)
    assert short.content(len(expected.log)) == expected.log


@pytest.mark.parametrize("name", ["node", "residual, exact tail"])
def test_a_snapshot_with_weights_beyond_the_limit_is_none(name: str) -> None:
    """Sends one like a host, with a right checksum: the perturbation of such a weight would wrap around."""
    log, made = bytearray(desktop(name).log), device(name)
    tasks = int.from_bytes(log[14:16], "little")
    size = 16 + 8 * tasks + int.from_bytes(log[132:136], "little") + 4
    slots = [164 + 32 * tasks + number * size for number in range(2)]
    steps = [int.from_bytes(log[at + 8 : at + 12], "little") for at in slots]
    for slot, expected in ((int(np.argmax(steps)), min(steps)), (int(np.argmin(steps)), 0)):
        at = slots[slot]
        log[at + 16 + 8 * tasks] = 0x80  # -128
        log[at + size - 4 : at + size] = zlib.crc32(log[at : at + size - 4]).to_bytes(4, "little")
        assert made.init() == OK
        assert made.import_log(Store(content=bytes(log))) == OK
        assert (made.step, made.export_weights()) == (expected, (OK, desktop(name).states[expected].weights))
