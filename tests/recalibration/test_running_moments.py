"""Moments that are summed up: exact, the same in any order and in every exact runtime, and checked."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tflm_zo as zo
from helpers.interpreters import RUNTIMES, require
from helpers.models import MODELS
from tflm_zo import DataError, RunningMoments
from tflm_zo.converters import ConversionError, load_model
from tflm_zo.converters.channel_statistics import with_statistics
from tflm_zo.recalibration import channel_statistics_of, corrected_names
from tflm_zo.recalibration.moments import cell_sums, channel_statistics, moments_of

PLAIN = MODELS["residual"]()


def data(count: int, seed: int, gain: float = 30) -> np.ndarray:
    x = np.random.default_rng(seed).normal(0, gain, (count, 8, 8, 3))
    return np.clip(np.rint(x), -128, 127).astype(np.int8)


@given(values=arrays.arrays(np.int8, st.tuples(*(st.integers(2, 5),) * 4)), zero_point=st.integers(-128, 127))
def test_statistics_are_numpys(values: np.ndarray, zero_point: int) -> None:
    flat = values.reshape(-1, values.shape[-1]).astype(float)
    moments, found = moments_of(values), channel_statistics(values, zero_point)
    assert np.allclose(moments.mean, flat.mean(0)) and np.allclose(moments.deviation, flat.std(0))
    assert np.array_equal(moments.deviation == 0, (flat == flat[0]).all(0))
    images = values.reshape(len(values), -1, values.shape[-1]).astype(float)
    assert np.allclose(found.mean, flat.mean(0) - zero_point)
    assert np.allclose(found.spread, images.mean(1).std(0, ddof=1))
    alive = flat.std(0) > 0
    own = ((images - flat.mean(0)) ** 2).mean(1)
    expected = own.std(0, ddof=1)[alive] / (2 * flat.var(0)[alive])
    assert np.allclose(found.log_spread[alive], expected, atol=1e-9)
    assert not found.log_spread[~alive].any()


def test_spreads_foretell_the_scatter_of_a_few_samples() -> None:
    """Compares standard errors from the old data with the scatter of moments over many draws of 16 samples."""
    rng = np.random.default_rng(0)

    def draw(count: int) -> np.ndarray:
        own = rng.normal(0, 8, (count, 1, 1, 3))
        gain = rng.uniform(0.5, 1.5, (count, 1, 1, 3))
        return np.clip(np.rint(own + gain * rng.normal(0, 15, (count, 6, 6, 3))), -128, 127).astype(np.int8)

    found = channel_statistics(draw(4000), 0)
    draws = [moments_of(draw(16)) for _ in range(600)]
    assert np.allclose(np.std([m.mean for m in draws], axis=0), found.spread / 4, rtol=0.12)
    assert np.allclose(np.std([np.log(m.deviation) for m in draws], axis=0), found.log_spread / 4, rtol=0.15)


def test_cells_of_images_of_any_size_hold_every_pixel_once() -> None:
    for height, width in ((4, 4), (7, 9), (32, 5)):
        values = np.random.default_rng(1).integers(-128, 128, (3, height, width, 2)).astype(np.int8)
        found = cell_sums(values)
        assert found is not None and found[1].sum() == height * width
        assert np.array_equal(found[0].sum(axis=1), values.sum(axis=(1, 2), dtype=np.int64))
        assert found[0][1, 0, 1] == values[1, : -(-height // 4), : -(-width // 4), 1].sum()
    assert cell_sums(np.zeros((2, 3, 9, 1), np.int8)) is None
    assert cell_sums(np.zeros((2, 9), np.int8)) is None


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("layer", [0, 3, 5])
def test_sums_are_the_same_in_any_order_and_runtime(runtime: str, layer: int, tmp_path: Path) -> None:
    require(runtime)
    require("litert")
    x = data(20, 1)
    whole, first, second = (RunningMoments(PLAIN, layer) for _ in range(3))
    whole.add(x, runtime="litert")
    for part in (x[:3], x[3:8], x[8:9]):
        first.add(part, runtime=runtime)
    second.add(x[9:], runtime=runtime)
    (second + first).save(tmp_path / "moments.npz")
    read = RunningMoments.load(tmp_path / "moments.npz", PLAIN)
    assert (read.samples, read.layer, read.moments.positions) == (20, layer, whole.moments.positions)
    assert np.array_equal(whole.moments.sums, read.moments.sums)
    assert np.array_equal(whole.moments.squares, read.moments.squares)


def test_layer_by_layer_moments_lead_where_samples_do() -> None:
    old, new = data(300, 1), np.clip(data(128, 2, 18).astype(int) + 10, -128, 127).astype(np.int8)
    aim = zo.recalibrate(PLAIN, new, source=old)
    assert not aim.uneven
    wanted = channel_statistics_of(load_model(PLAIN), old)

    def distance(model: zo.Model) -> float:
        pairs = zip(channel_statistics_of(model, new).layers, wanted.layers, strict=True)
        found = ((a.mean - b.mean)[b.deviation > 0] / b.deviation[b.deviation > 0] for a, b in pairs)
        return sum(float(np.abs(moved).mean()) for moved in found)

    model = with_statistics(load_model(PLAIN), wanted)
    before = distance(model)
    for layer in range(len(corrected_names(model))):
        moments = RunningMoments(model, layer)
        moments.add(new)
        found = zo.recalibrate(model, moments)
        assert [i for i, change in enumerate(found.layers) if change.corrected] == [layer]
        model = found.model
    assert distance(aim.model) < distance(model) < 0.3 * before


def test_a_device_s_sums_are_taken() -> None:
    summed = RunningMoments(PLAIN, 2)
    summed.add(data(8, 3))
    given = RunningMoments(PLAIN, 2, 8, summed.moments.sums.tolist(), summed.moments.squares.tolist())
    assert given.moments.positions == summed.moments.positions
    source = data(50, 1)
    models = [zo.recalibrate(PLAIN, m, source=source).model.to_bytes() for m in (summed, given)]
    assert models[0] == models[1]


def test_refusals(tmp_path: Path) -> None:
    moments = RunningMoments(PLAIN, 0)
    with pytest.raises(DataError, match="no sample"):
        zo.recalibrate(PLAIN, moments, source=data(8, 1))
    with pytest.raises(ConversionError, match=r"`layer` must be in 0..5 \(stem, "):
        RunningMoments(PLAIN, 6)
    with pytest.raises(DataError, match="layers 0 and 1 do not add up"):
        moments + RunningMoments(PLAIN, 1)
    moments.add(data(4, 1))
    other = load_model(PLAIN)
    other.subgraphs[0].operators[0].inputs[1].quantization.scales *= 2  # type: ignore[union-attr]
    with pytest.raises(DataError, match="another model"):
        zo.recalibrate(other, moments, source=data(8, 1))
    sums, squares = moments.moments.sums, moments.moments.squares
    wrong = [
        (4, sums[:-1], squares[:-1], "integers each"),
        (4, sums, squares * 0, "do not have them"),
        (4, sums, squares + 10**9, "do not have them"),
        (1, sums, squares, "do not have them"),
        (4, sums.astype(float), squares, "integers each"),
    ]
    for samples, s, q, message in wrong:
        with pytest.raises(DataError, match=message):
            RunningMoments(PLAIN, 0, samples, s, q)
    np.savez(tmp_path / "x.npz", x=data(4, 1))
    with pytest.raises(DataError, match="no file of moments"):
        RunningMoments.load(tmp_path / "x.npz", PLAIN)
    moments.save(tmp_path / "m.npz")
    with pytest.raises(FileExistsError):
        moments.save(tmp_path / "m.npz")
    with pytest.raises(DataError, match="another model"):
        RunningMoments.load(tmp_path / "m.npz", other)
