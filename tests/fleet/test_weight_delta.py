"""Differences of weights: there and back, and damaged ones."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tflm_zo.fleet import FleetError
from tflm_zo.fleet.averaged_weights import packed, unpacked

weights = arrays.arrays(np.int8, st.tuples(st.integers(1, 5), st.integers(1, 6)))
biases = arrays.arrays(np.int32, st.integers(1, 4), elements=st.integers(-(2**30), 2**30))


@given(weights, biases, st.integers(0, 2**32), st.booleans())
def test_there_and_back(w: np.ndarray, b: np.ndarray, seed: int, small: bool) -> None:
    rng, before = np.random.default_rng(seed), {"w": w, "b": b}
    reach = 1 if small else 2**29
    now = {
        "w": rng.integers(-128, 128, w.shape).astype(np.int8),
        "b": b + rng.integers(-reach, reach + 1, b.shape).astype(np.int32),
    }
    for data, of, whole in ((packed(now, before), before, False), (packed(now), before, True)):
        found = unpacked(data, of, whole=whole)
        assert all(np.array_equal(found[n], now[n]) for n in now)
    changes = unpacked(packed(now, before), before, whole=True)
    assert all(np.array_equal(changes[n], now[n].astype(np.int64) - before[n]) for n in now)


def test_few_changes_are_few_bytes() -> None:
    rng = np.random.default_rng(0)
    before = {"w": rng.integers(-127, 128, 60_000).astype(np.int8)}
    now = {"w": before["w"].copy()}
    now["w"][rng.integers(0, 60_000, 3000)] ^= 1
    assert len(packed(now, before)) < 60_000 / 8 and len(packed(now)) > 50_000


def test_damage_is_refused() -> None:
    before = {"w": np.arange(12, dtype=np.int8).reshape(3, 4), "b": np.arange(3, dtype=np.int32)}
    data = packed(before)
    for wrong in (b"", b"junk", data[:-3], zlib.compress(b"\x00" * 5), zlib.compress(b"\x07" * 99)):
        with pytest.raises(FleetError, match="damaged weights|of another model, or cut off"):
            unpacked(wrong, before)
    with pytest.raises(FleetError, match="of another model"):
        unpacked(data, {"w": before["w"]})
    with pytest.raises(FleetError, match="of another model"):  # a bomb
        unpacked(zlib.compress(bytes(10**8)), before)
