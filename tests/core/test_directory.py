# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A directory has what the op pack wrote into it, as views of the runtime's memory."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tflm_zo.core import Directory
from tflm_zo.core.loader import constants, structs


def publish(directory: Directory, stream: int, weights: np.ndarray, fraction: np.ndarray | None) -> None:
    """As an op does: at the address that the directory gives."""
    header = structs.zo_directory.from_address(directory.address)
    assert header.magic == constants.ZO_DIRECTORY_MAGIC
    entries = (structs.zo_directory_entry * header.capacity).from_address(
        ctypes.cast(header.entries, ctypes.c_void_p).value
    )
    entry = entries[header.count]
    entry.stream, entry.size, entry.weights = stream, weights.size, weights.ctypes.data
    entry.fraction = None if fraction is None else fraction.ctypes.data
    header.count += 1


def test_views_alias_the_memory() -> None:
    directory = Directory(2)
    weights, fraction, other = (np.arange(n, n + 5, dtype=np.int8) for n in (0, 10, 20))
    publish(directory, 7, weights, fraction)
    publish(directory, 3, other, None)
    found, own_fraction = directory.find(7)
    assert own_fraction is not None
    np.testing.assert_array_equal(found, weights)
    np.testing.assert_array_equal(own_fraction, fraction)
    assert directory.find(3)[1] is None
    found[2] = -9
    assert weights[2] == -9


def test_what_was_not_published_is_not_there() -> None:
    directory = Directory(2)
    with pytest.raises(KeyError):
        directory.find(0)  # an empty entry has the number 0, too
    publish(directory, 1, np.zeros(3, np.int8), None)
    with pytest.raises(KeyError):
        directory.find(0)
