"""The threshold of an anomaly is the order statistic that NumPy finds, in any order and in little memory."""

import ctypes
import itertools
from ctypes import byref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tflm_zo.core import PERCENTILE_MAX, NativeError, threshold_of
from tflm_zo.core.loader import library, structs

LOSSES = st.lists(st.one_of(st.integers(0, 2**31 - 1), st.integers(0, 5)), min_size=1, max_size=300)
PERCENTILES = st.one_of(st.integers(1, PERCENTILE_MAX), st.sampled_from([9000, 9900, 9999, PERCENTILE_MAX]))
MEMORY, ARGUMENT, OK = 14, 1, 0


def partitioned(losses: NDArray[np.int32], percentile: int) -> int:
    """Returns the smallest loss that at least this percentile of the losses does not exceed."""
    least = -(-percentile * len(losses) // PERCENTILE_MAX)
    return int(np.partition(losses, least - 1)[least - 1])


@given(LOSSES, PERCENTILES, st.randoms())
def test_the_threshold_is_an_order_statistic(losses: list[int], percentile: int, random: object) -> None:
    given = np.array(losses, np.int32)
    threshold = threshold_of(given, percentile)
    assert threshold == partitioned(given, percentile)
    assert (given > threshold).sum() * PERCENTILE_MAX <= (PERCENTILE_MAX - percentile) * len(given)
    random.shuffle(losses)  # type: ignore[attr-defined]
    assert threshold_of(np.array(losses, np.int32), percentile) == threshold


def test_every_order_of_a_few() -> None:
    for order in itertools.permutations([3, 1, 4, 1, 5]):
        found = [threshold_of(np.array(order, np.int32), percentile) for percentile in (2000, 6000, 8000, 8001, 10000)]
        assert found == [1, 3, 4, 5, 5]


@pytest.mark.parametrize(("samples", "percentile", "room"), [(1, 1, 1), (99, 9900, 1), (100, 9900, 2), (250, 9900, 3)])
def test_room(samples: int, percentile: int, room: int) -> None:
    assert library().zo_calibration_room(samples, percentile) == room
    assert library().zo_calibration_room(2**32 - 1, percentile) <= 2**32 - 1


def test_refusals() -> None:
    largest, threshold = np.full(3, 7, np.int32), ctypes.c_int32(-5)
    calibration = structs.zo_calibration(largest=largest.ctypes.data, room=2, samples=0)
    find = library().zo_calibration_threshold
    assert find(calibration, 9900, byref(threshold)) == ARGUMENT  # no samples
    for loss in range(200):
        library().zo_calibration_add(calibration, loss)
    assert find(calibration, 0, byref(threshold)) == find(calibration, PERCENTILE_MAX + 1, byref(threshold)) == ARGUMENT
    assert find(calibration, 9900, byref(threshold)) == MEMORY  # three are needed
    assert threshold.value == -5
    assert find(calibration, 9950, byref(threshold)) == OK and threshold.value == 198
    assert largest.tolist() == [199, 198, 7]
    with pytest.raises(NativeError):
        threshold_of(np.zeros(0, np.int32), 9900)


def test_no_room() -> None:
    calibration = structs.zo_calibration(largest=None, room=0, samples=0)
    library().zo_calibration_add(calibration, 3)
    assert calibration.samples == 1
    assert library().zo_calibration_threshold(calibration, PERCENTILE_MAX, byref(ctypes.c_int32())) == MEMORY
