"""A device finds the desktop's threshold in losses of normal samples, and keeps it in its log, to the bit."""

import ctypes
from ctypes import byref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device.emulation import ARGUMENT, LOG, MEMORY, OK, ORDER, SAMPLE, STORE, Device, Samples, Store, needs_compiler
from device.runs import generated
from device.structs import Yardstick
from helpers.models import MODELS
from logs.test_padding import padded
from tflm_zo import Model, Settings, Trainer, calibrate, load_model
from tflm_zo.core.loader import structs
from tflm_zo.data import Data
from tflm_zo.logs import Log
from tflm_zo.training import Exact, Nodes, Weights, inject_for

pytestmark = needs_compiler

STEPS, PERCENTILE, ROOM = 4, 9000, 6
#: Runs; with a batch of 2, the last samples come alone.
RUNS = {
    "weight": Settings(tasks=(Weights(queries=2),), batch_size=2, seed=3, learning_rate=20.0),
    "node": Settings(tasks=(Nodes(queries=2),), batch_size=2, seed=5, snapshot_every=2),
    "exact": Settings(tasks=(Exact(last="all"),), batch_size=1, seed=5, snapshot_every=2),
}


@cache
def zo_model(name: str) -> Model:
    batch = min(2, RUNS[name].batch_size)
    return load_model(inject_for(load_model(MODELS["autoencoder"]()), RUNS[name], loss="mse", batch=batch).to_bytes())


@cache
def samples(seed: int, count: int) -> Data:
    """Samples whose targets are others: those of the autoencoder's own come from two roundings."""
    rng = np.random.default_rng(seed)
    return Data([rng.integers(-128, 128, (count, 24), np.int8)], rng.integers(-40, 40, (count, 24), np.int8))


def normal() -> Data:
    return samples(2, 51)


def device(name: str) -> Device:
    made = Device(generated(zo_model(name), RUNS[name], samples(1, 7), steps=STEPS), zo_model(name), samples(1, 7))
    assert made.init() == OK
    return made


def run(made: Device, store: Store | None) -> None:
    made.set_log(store)
    while made.step < STEPS:
        assert made.train_step()[0] == OK


class Kept:
    """The largest losses, in memory that ends where it has to."""

    def __init__(self, room: int = ROOM) -> None:
        self.largest = np.full(room + 1, 77, np.int32)
        self.c = structs.zo_calibration(largest=self.largest.ctypes.data, room=room, samples=0)

    def threshold(self, made: Device, percentile: int = PERCENTILE) -> tuple[int, int]:
        found = ctypes.c_int32(-1)
        status = made.call_c("keep_threshold", byref(self.c), ctypes.c_uint32(percentile), byref(found))
        assert self.largest[-1] == 77
        return status, found.value


def calibrated(made: Device, samples: Samples | None = None) -> tuple[int, Kept]:
    kept, own = Kept(), samples or Samples(normal())
    return made.call_c("calibrate", byref(made.source_of(own)), ctypes.c_uint32(own.c.count), byref(kept.c)), kept


def in_c(made: Device, store: Store | None) -> Any:
    """Runs with the trainer in C, which has the further calls."""
    made.in_c = True
    assert made.init() == OK
    run(made, store)


def on_desktop(name: str, folder: Path) -> tuple[Any, bytes]:
    log = folder / "run.zolog"
    trainer = Trainer(zo_model(name), RUNS[name])
    trainer.fit(samples(1, 7), steps=STEPS, log=log, keep="last")
    found = calibrate(zo_model(name), normal(), percentile=PERCENTILE / 100, log=log)
    return found, log.read_bytes()


@pytest.mark.parametrize("unit", (1, 8))
@pytest.mark.parametrize("name", RUNS)
def test_the_threshold_is_the_desktops(name: str, unit: int, tmp_path: Path) -> None:
    expected, log = on_desktop(name, tmp_path)
    made, store = device(name), Store(unit=unit)
    in_c(made, store)
    status, kept = calibrated(made)
    assert status == OK and kept.c.samples == 51
    assert kept.threshold(made) == (OK, expected.threshold)
    wanted = padded(log, unit) if unit > 1 else log
    assert store.content(len(wanted)) == wanted

    # The losses one by one: those above are the desktop's, and so is a calibration of them in another order.
    losses, again = [], Kept()
    for x, target in zip(normal().inputs[0][::-1], normal().labels[::-1], strict=True):
        loss = ctypes.c_int32()
        inputs = (ctypes.c_void_p * 1)(x.ctypes.data)
        assert made.call_c("score", inputs, ctypes.c_void_p(target.ctypes.data), byref(loss)) == OK
        losses.append(loss.value)
        made.library.small_zo_calibration_add(byref(again.c), loss)
    assert sum(loss > expected.threshold for loss in losses) == expected.above
    assert sorted(losses)[-ROOM] == expected.threshold and again.threshold(made) == (OK, expected.threshold)

    # After a reset the log has it.
    found = ctypes.c_int32()
    assert made.init() == OK
    assert made.call_c("read_threshold", byref(found)) == ORDER
    assert (made.import_log(store), made.set_log(store)) == (OK, OK)
    assert made.call_c("read_threshold", byref(found)) == OK
    assert found.value == expected.threshold
    path = tmp_path / "device.zolog"
    path.write_bytes(store.content(len(wanted)))
    threshold = Log.read(path).threshold
    assert threshold is not None and (threshold.loss_sum, threshold.correct) == (expected.threshold, PERCENTILE)
    assert threshold.data_checksum == made.checksum()


@pytest.mark.parametrize("name", ("weight", "node"))
def test_a_threshold_belongs_to_its_weights(name: str) -> None:
    made, store, found, best = device(name), Store(), ctypes.c_int32(), structs.zo_measurement()
    made.in_c = True
    x = samples(4, 3).inputs[0]
    own_outputs = Trainer(zo_model(name), RUNS[name]).predict(Data([x], x))
    measured = Samples(Data([x], own_outputs))  # the best state is the first one
    by = Yardstick(made.source_of(measured), 3, 3)  # after steps 0, 3 and 4
    assert made.init() == OK and made.call_c("keep_best", byref(by)) == OK
    run(made, store)
    last = made.checksum()
    assert made.call_c("restore_best", byref(best)) == OK
    assert made.checksum() != last
    assert made.call_c("read_threshold", byref(found)) == LOG
    status, kept = calibrated(made)
    assert status == OK and kept.threshold(made)[0] == OK
    assert made.init() == OK and made.call_c("keep_best", byref(by)) == OK
    assert (made.import_log(store), made.set_log(store)) == (OK, OK)
    assert made.checksum() == last and made.call_c("read_threshold", byref(found)) == LOG
    assert made.call_c("restore_best", byref(best)) == OK
    assert made.call_c("read_threshold", byref(found)) == OK
    assert found.value == kept.threshold(made)[1]


@pytest.mark.parametrize("name", ("weight", "node"))
def test_refusals(name: str) -> None:
    made, store, found = device(name), Store(), ctypes.c_int32()
    made.in_c = True
    assert made.init() == OK
    status, kept = calibrated(made)
    assert status == OK
    assert kept.threshold(made)[0] == ORDER  # the threshold is there, and no log to keep it in
    assert kept.threshold(made)[1] == int(kept.largest[ROOM - 1])
    assert made.call_c("read_threshold", byref(found)) == ORDER
    run(made, store)
    assert made.call_c("read_threshold", byref(found)) == LOG  # none yet
    assert Kept().threshold(made)[0] == ARGUMENT  # no samples
    assert kept.threshold(made, 0)[0] == kept.threshold(made, 10001)[0] == ARGUMENT
    assert kept.threshold(made, 8000)[0] == MEMORY
    missing = Samples(normal())
    missing.fail_at(9)
    assert calibrated(made, missing)[0] == SAMPLE

    # A write of which a part arrives leaves no threshold, and the run as it was; the next one succeeds.
    assert kept.threshold(made)[0] == OK
    store.fail_at(1, arrives=13)
    status, threshold = kept.threshold(made, 9500)
    assert status == STORE and threshold == int(kept.largest[2])
    store.fail_at(0)
    assert made.call_c("read_threshold", byref(found)) == LOG
    checksum = made.checksum()
    assert made.init() == OK
    assert (made.import_log(store), made.set_log(store)) == (OK, OK)
    assert (made.step, made.checksum()) == (STEPS, checksum)
    assert made.call_c("read_threshold", byref(found)) == LOG
    status, kept = calibrated(made)
    assert kept.threshold(made)[0] == OK and made.call_c("read_threshold", byref(found)) == OK
