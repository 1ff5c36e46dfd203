"""The drift on a device: the sums of its samples are the desktop's, and so is the score, but for the rounding."""

import ctypes
import dataclasses
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

import tflm_zo as zo
from device.emulation import OK, ORDER, RUNTIME, RUNTIME_FAILED, Device, needs_compiler
from device.runs import generated
from helpers.device_drift import DeviceDrift, DriftLayer
from helpers.examples import slow_but
from helpers.models import MODELS
from tflm_zo import Model, RunningMoments, load_model
from tflm_zo.converters import export_model
from tflm_zo.converters.channel_statistics import with_statistics
from tflm_zo.data import Data
from tflm_zo.firmware import Firmware
from tflm_zo.recalibration import channel_statistics_of, corrected_names
from tflm_zo.training import Exact, Nodes, Settings, Weights, inject_for

pytestmark = needs_compiler

#: Networks, runs, and the layer that is read: the last one that no training changes, else the first one.
RUNS = {
    "nodes": ("residual", Settings(tasks=(Nodes(queries=2),), batch_size=2, seed=5), "block1/conv0"),
    "some layers": ("lenet5", Settings(tasks=(Nodes(),), batch_size=2, seed=5, layers=("fc1",)), "conv2"),
    "every layer": ("depthwise_separable", Settings(tasks=(Exact(last="all"),), batch_size=1, seed=5), "conv"),
    "weights": ("dense_per_tensor", Settings(tasks=(Weights(scope="layers"),), batch_size=2, seed=5), "fc1"),
}
EACH_RUN = pytest.mark.parametrize("name", slow_but(("nodes", "weights"), RUNS))


@cache
def samples(network: str, seed: int, count: int, gain: float = 1) -> Data:
    graph = load_model(MODELS[network]()).subgraphs[0]
    rng = np.random.default_rng(seed)
    x = np.clip(gain * rng.normal(0, 30, (count, *graph.inputs[0].shape[1:])), -128, 127).astype(np.int8)
    return Data([x], rng.integers(0, graph.outputs[0].shape[-1], count).astype(np.int32))


@cache
def zo_model(name: str) -> Model:
    network, settings, _ = RUNS[name]
    plain = load_model(MODELS[network]())
    plain = with_statistics(plain, channel_statistics_of(plain, samples(network, 1, 100).inputs[0]))
    return load_model(inject_for(plain, settings).to_bytes())


@cache
def firmware(name: str) -> Firmware:
    network, settings, _ = RUNS[name]
    return generated(zo_model(name), settings, samples(network, 2, 6), steps=4)


class Watched:
    """A device with a drift of the layer that its firmware names."""

    def __init__(self, name: str) -> None:
        network, _, layer = RUNS[name]
        self.plain = export_model(zo_model(name), batch=1)
        self.number = corrected_names(self.plain).index(layer)
        self.made = Device(firmware(name), zo_model(name), samples(network, 2, 6), in_c=True)
        assert self.made.init() == OK
        self.drift = DeviceDrift(DriftLayer.in_dll(self.made.library, "small_zo_old_data"))

    def watch(self, x: NDArray[np.int8]) -> tuple[int, bytes]:
        output = np.full(self.made.output_shape[-1] + 1, 77, np.int8)
        inputs = (ctypes.c_void_p * 1)(x.ctypes.data)
        status = self.made.call_c("watch", inputs, ctypes.c_void_p(output.ctypes.data), ctypes.byref(self.drift.c))
        assert output[-1] == 77
        return status, output[:-1].tobytes()


@EACH_RUN
def test_sums_and_score_are_the_desktops(name: str) -> None:
    network, _, layer = RUNS[name]
    assert (firmware(name).drift_layer, firmware(name).no_drift) == (layer, "")
    scores = []
    for gain in (1, 1.5, 2.5):
        own, x = Watched(name), samples(network, 3, 40, gain).inputs[0]
        expected = RunningMoments(own.plain, own.number)
        expected.add(x, runtime=RUNTIME)
        for sample in x:
            status, output = own.watch(sample)
            assert status == OK
            plain = np.zeros(len(output), np.int8)
            inputs = (ctypes.c_void_p * 1)(sample.ctypes.data)
            assert own.made.call_c("predict", inputs, ctypes.c_void_p(plain.ctypes.data)) == OK
            assert plain.tobytes() == output
        assert own.drift.c.samples == 40
        assert np.array_equal(own.drift.sums, [expected.moments.sums, expected.moments.squares])
        assert firmware(name).drift_bytes == own.drift.sums.nbytes
        scores.append(zo.drift(own.plain, expected).score)
        assert abs(own.drift.score - scores[-1]) <= 1 / 256
        sent = RunningMoments(own.plain, own.number, own.drift.c.samples, *own.drift.sums)
        assert zo.drift(own.plain, sent).score == scores[-1]
    assert scores == sorted(scores) and scores[-1] > 0.3


@EACH_RUN
def test_a_drift_between_steps_changes_no_bit(name: str) -> None:
    """Steps add nothing to it, and where no layer up to it is trained, they leave its output as it is."""
    x = samples(RUNS[name][0], 4, 1).inputs[0][0]
    plain, checksums = Watched(name).made, []
    for _ in range(4):
        assert plain.train_step()[0] == OK
        checksums.append(plain.checksum())
    own, sums = Watched(name), []
    for checksum in checksums:
        step = own.made.step
        while own.made.step == step:
            # Within a step, too, except in residual networks, whose shortcuts are in the way.
            if own.watch(x)[0] == OK:
                sums.append(own.drift.sums.copy())
            else:
                assert name == "nodes"
            assert own.made.train_slice()[0] == OK
        assert own.made.checksum() == checksum
    assert own.drift.c.samples == len(sums) >= 4
    if name == "some layers":
        assert np.array_equal(sums[-1], len(sums) * sums[0])


def test_failures() -> None:
    own, x = Watched("nodes"), samples("residual", 4, 1).inputs[0][0]
    own.made.fail_invokes(1)
    assert own.watch(x)[0] == RUNTIME_FAILED and own.drift.c.samples == 0 and not own.drift.sums.any()
    own.made.fail_invokes()
    assert own.watch(x)[0] == OK and own.drift.c.samples == 1
    assert own.made.init(arena_bytes=64) != OK
    assert own.watch(x)[0] == ORDER and own.drift.c.samples == 1


def test_models_without_a_drift_have_nothing_of_it() -> None:
    network, settings, _ = RUNS["nodes"]
    plain = load_model(MODELS[network]())
    made = generated(inject_for(plain, settings), settings, samples(network, 2, 6), steps=4)
    assert (made.drift_layer, made.drift_bytes) == ("", 0)
    assert made.no_drift == "the model keeps no statistics of the data that it was made for"
    assert not [path for path, text in made.files.items() if "drift" in text.lower() or "old_data" in text]
    weights = dataclasses.replace(settings, tasks=(Weights(),))
    kept = with_statistics(plain, channel_statistics_of(plain, samples(network, 1, 100).inputs[0]))
    made = generated(inject_for(kept, weights), weights, samples(network, 2, 6), steps=4)
    assert "no layer with statistics ends at a cut" in made.no_drift
    damaged = inject_for(kept, settings)
    entry = damaged.find_metadata("tflm_zo_channels")
    assert entry is not None
    entry.buffer.data = b"\1\0"
    assert "are damaged" in generated(damaged, settings, samples(network, 2, 6), steps=4).no_drift
