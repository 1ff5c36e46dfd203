"""The drift score of firmware, from integers: the desktop's to 1/256 of an old deviation."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.device_drift import GCC, DeviceDrift
from tflm_zo.converters.channel_statistics import ChannelStatistics
from tflm_zo.firmware.drift import rows_of
from tflm_zo.recalibration.moments import Moments, moments_of, shift_between

pytestmark = pytest.mark.skipif(GCC is None, reason="NO gcc: THE DRIFT SCORE OF FIRMWARE WAS NOT TESTED")
BOUND = 1 / 256
MOST = 2**30 - 1  # values of a channel


class Case(NamedTuple):
    old: ChannelStatistics
    old_samples: int
    sums: NDArray[np.int64]
    squares: NDArray[np.int64]
    samples: int
    positions: int
    zero_point: int


def half(values: object) -> NDArray[np.float64]:
    return np.asarray(values, np.float16).astype(np.float64)


def oracle(case: Case) -> float:
    """The formula, channel by channel; the variance of a channel as an exact fraction."""
    count, mean_shifts, deviation_shifts = case.samples * case.positions, [], []
    mean_ratios, deviation_ratios = [], []
    error = 1 / case.samples + 1 / case.old_samples
    for c in range(len(case.sums)):
        total, square = int(case.sums[c]), int(case.squares[c])
        pairs, deviation = count * square - total * total, float(case.old.deviation[c])
        if pairs == 0 or deviation == 0:
            continue
        away = (total / count - case.zero_point - case.old.mean[c]) / deviation
        stretched = math.log(math.sqrt(pairs) / count / deviation)
        mean_shifts.append(away**2)
        deviation_shifts.append(stretched**2)
        if case.old.spread[c] > 0:
            mean_ratios.append((away * deviation / case.old.spread[c]) ** 2 / error)
        if case.old.log_spread[c] > 0:
            deviation_ratios.append((stretched / case.old.log_spread[c]) ** 2 / error)
    size = 0.0
    for squares, ratios in ((mean_shifts, mean_ratios), (deviation_shifts, deviation_ratios)):
        if ratios and np.mean(ratios) > 1:
            size += float(np.mean(squares) * (1 - 1 / np.mean(ratios)))
    return math.sqrt(size)


def on_device(case: Case) -> float:
    made = DeviceDrift.of_rows(rows_of(case.old, case.zero_point), case.old_samples, case.positions)
    made.sums[:] = case.sums, case.squares
    made.c.samples = case.samples
    return made.score


def check(case: Case) -> float:
    """Returns the distance to the desktop's score and to the oracle's."""
    new = Moments(case.samples * case.positions, case.sums, case.squares)
    desktop = shift_between(case.old, case.old_samples, new, case.samples, case.zero_point).size
    assert desktop == pytest.approx(oracle(case), rel=1e-6, abs=1e-5)
    found = on_device(case)
    assert abs(found - desktop) <= BOUND, (found, desktop, case)
    return abs(found - desktop)


def random_case(rng: np.random.Generator) -> Case:
    channels, positions = int(rng.integers(1, 65)), int(rng.choice([1, 1, 4, 64, 1024]))
    samples = int(rng.choice([1, 2, 16, 100, MOST // positions]))
    zero_point = int(rng.integers(-128, 128))
    alive = rng.random(channels) > 0.1
    deviation = half(2.0 ** rng.uniform(-6, 6, channels) * alive)
    mean = half(rng.uniform(-128, 127, channels) - zero_point)
    spread = half(deviation * 2.0 ** rng.uniform(-8, 0, channels) * (rng.random(channels) > 0.05))
    log_spread = half(2.0 ** rng.uniform(-8, 2, channels) * (rng.random(channels) > 0.05))
    # New data, at a distance from almost nothing to several deviations.
    count = samples * positions
    away = 2.0 ** rng.uniform(-8, 3) * deviation * rng.normal(size=channels)
    new_mean = np.clip(mean + zero_point + away, -128, 127)
    new_deviation = np.clip(deviation * np.exp(2.0 ** rng.uniform(-8, 1) * rng.normal(size=channels)), 0, 60)
    sums = np.clip(np.rint(new_mean * count).astype(np.int64), -128 * count, 127 * count)
    least = [-(-(int(s) ** 2) // count) for s in sums]
    more = np.rint(new_deviation**2 * count * (rng.random(channels) > 0.05)).astype(np.int64)
    old = ChannelStatistics(mean, deviation, spread, log_spread)
    old_samples = int(rng.choice([2, 30, 300, 100_000]))
    return Case(old, old_samples, sums, np.array(least, np.int64) + more, samples, positions, zero_point)


def test_random_channels() -> None:
    rng = np.random.default_rng(1)
    worst = max(check(random_case(rng)) for _ in range(2000))
    assert worst > 0.4 * BOUND  # of the integers' rounding, so the test sees it


def case_of(values: NDArray[np.int8], old: ChannelStatistics, old_samples: int = 200, zero_point: int = 3) -> Case:
    found = moments_of(values)
    positions = found.positions // len(values)
    return Case(old, old_samples, found.sums, found.squares, len(values), positions, zero_point)


def old_data(channels: int, deviation: float = 20.0) -> ChannelStatistics:
    ones = np.ones(channels)
    return ChannelStatistics(half(5 * ones), half(deviation * ones), half(0.3 * deviation * ones), half(0.2 * ones))


def test_sums_are_the_desktops() -> None:
    values = np.random.default_rng(2).integers(-128, 128, (5, 3, 4, 6)).astype(np.int8)
    made = DeviceDrift.of_rows(rows_of(old_data(6), 3), 200, 12)
    assert made.score == 0  # no samples
    for count, sample in enumerate(values, 1):
        made.add(sample[None])
        now = moments_of(values[:count])
        assert made.c.samples == count
        assert np.array_equal(made.sums, [now.sums, now.squares])
        case = case_of(values[:count], old_data(6))
        assert made.score == on_device(case)
        check(case)  # one sample, too


def test_channels_that_do_not_count() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-128, 128, (4, 9, 3)).astype(np.int8)
    values[..., 1] = -128
    old = old_data(3)
    old.deviation[2] = 0
    assert check(case_of(values, old)) <= BOUND
    assert on_device(case_of(values, old)) == on_device(case_of(values[..., :1], old_data(1)))
    values[...] = 127  # constant, all of them
    assert on_device(case_of(values, old)) == 0
    mean, deviation, _, _ = dataclasses.astuple(old_data(3))
    unknown = ChannelStatistics(mean, deviation, 0 * deviation, 0 * deviation)  # all of a shift may be chance
    assert on_device(case_of(rng.integers(-128, 128, (4, 9, 3)).astype(np.int8), unknown)) == 0


@pytest.mark.parametrize("zero_point", (-128, 127))
@pytest.mark.parametrize("deviation", (2.0**-24, 2.0**-10, 127.5))
@pytest.mark.parametrize("mean", (-128, 127))
def test_the_largest_and_smallest_numbers(mean: int, deviation: float, zero_point: int) -> None:
    """Sums of 2^30 - 1 values at an end of int8, one of which is another: the largest, with the least variance."""
    ends = np.array([mean, -1 - mean])
    old = ChannelStatistics(
        half(ends - zero_point), half([deviation] * 2), half([deviation / 2] * 2), half([2.0**-8] * 2)
    )
    for samples, positions in ((MOST, 1), (1, MOST), (2, 1)):
        count = samples * positions
        sums = (count - 1) * ends[::-1] - 1 - ends[::-1] // 128
        squares = (count - 1) * ends[::-1] ** 2 + (-1 - ends[::-1] // 128) ** 2
        case = Case(old, 2**32 - 1, sums, squares, samples, positions, zero_point)
        desktop = shift_between(old, case.old_samples, Moments(count, sums, squares), samples, zero_point).size
        assert on_device(case) == pytest.approx(min(desktop, (2**32 - 1) / 256), abs=BOUND, rel=2**-20)


def test_tables_are_exact() -> None:
    """Means and deviations, of 16 bits in the model, lose nothing in the tables."""
    rng = np.random.default_rng(4)
    deviation = half(2.0 ** rng.uniform(-24, 6.9, 1000))
    mean = half(rng.uniform(-1, 1, 1000) * 2.0 ** rng.uniform(-20, 6.9, 1000))
    rows = rows_of(ChannelStatistics(mean, deviation, deviation, 0 * mean), 0)
    assert np.array_equal(rows[:, 0] / 2.0**24, mean) and np.array_equal(rows[:, 1] / 2.0**24, deviation)
    assert set(rows[:, 2]) == {2**20} and set(rows[:, 3]) == {0}
