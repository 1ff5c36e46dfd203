"""Directions with memory: that they are the process they are meant to be."""

from statistics import NormalDist

import numpy as np
import pytest

from helpers import core
from helpers.oracle import chain
from helpers.oracle.stream import Dist
from tflm_zo.core import Gaussian

SIZE = 40_000
STD = 12.0  # LSB: rounding to whole ones hardly shows
GAUSSIAN = Gaussian(STD)


def perturbation(seeds: list[int], rho: float) -> np.ndarray:
    weights = np.zeros(SIZE, np.int8)
    terms = [(seed, 0 if j else 1) for j, seed in enumerate(seeds)]
    core.perturb(weights, terms, GAUSSIAN, momentum=round(rho * 65536))
    return weights.astype(float)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("count", [2, 5, 8])
def test_shares(rho, count):
    shares = np.array(chain.shares(round(rho * 65536), count)) / 2**15
    exact = rho ** np.arange(count)
    assert np.abs(shares - exact / np.linalg.norm(exact)).max() < 2**-13


@pytest.mark.parametrize("rho", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("count", [2, 5, 8])
def test_is_the_oracles(rho, count):
    """Compares to the bit, with so many weights that the last bit of a share shows."""
    seeds, momentum = list(range(40, 40 + count)), round(rho * 65536)
    expected = chain.perturbation(Dist(2, GAUSSIAN.mu), seeds, momentum, 0, SIZE)
    assert np.array_equal(perturbation(seeds, rho), expected)


@pytest.mark.parametrize("rho", [0.3, 0.7, 0.95])
def test_the_process(rho):
    """Draws normal directions of the distribution's size, with a memory of rho^distance."""
    count, last = 6, 12
    z = np.array([perturbation(list(range(t, t - count, -1)), rho) for t in range(100, 100 + last)])
    exact = rho ** np.arange(count)
    exact /= np.linalg.norm(exact)
    single = perturbation([1], 0.0)
    within = NormalDist(0, STD).cdf(STD - 0.5) * 2 - 1  # rounded values
    assert np.abs(z.std(axis=1) / single.std() - 1).max() < 0.02
    assert np.abs(z.mean(axis=1)).max() < 5 * STD / SIZE**0.5
    assert abs(np.mean(np.abs(z) < STD) - within) < 0.01
    for distance in range(last):
        wanted = float(exact[distance:] @ exact[: count - distance]) if distance < count else 0.0
        found = np.mean(z[: last - distance] * z[distance:]) / z.var()
        assert abs(found - wanted) < 0.02, distance


def test_a_step_follows_the_direction_that_was_perturbed():
    """Moves the weights along a chain by its items."""
    rho, seeds = 0.8, [5, 6, 7, 8]
    z = perturbation(seeds, rho)
    weights = np.zeros(SIZE, np.int8)
    coefficient = 20_000
    items = chain.items(coefficient, seeds, round(rho * 65536))
    core.update(weights, np.zeros(SIZE, np.int8), None, 1, 1, 0, 127, GAUSSIAN, items)
    moved = weights.astype(float)
    assert np.corrcoef(z, moved)[0, 1] > 0.995
    # z in standard deviations; the table has 127 / 3.5 units for one.
    assert moved.std() == pytest.approx(coefficient / 65536 * 127 / 3.5, rel=0.03)
