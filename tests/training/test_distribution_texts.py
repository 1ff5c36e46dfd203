"""Distributions as people write them."""

import pytest

from tflm_zo.core import Coordinate, Distribution, Gaussian, Rademacher, SparseUniform
from tflm_zo.training import SettingsError
from tflm_zo.training.setting_texts import parse_distribution


@pytest.mark.parametrize(
    ("text", "distribution"),
    [
        ("rademacher:2", Rademacher(2)),
        ("sparse-uniform:3", SparseUniform(3)),
        ("sparse-uniform:3:0.5", SparseUniform(3, 0.5)),
        ("gaussian:0.6", Gaussian(0.6)),
        ("coordinate:4", Coordinate(4)),
    ],
)
def test_text(text: str, distribution: Distribution) -> None:
    assert parse_distribution(text) == distribution


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coordinate", r"`perturbation` must be one of rademacher:LSB, sparse-uniform:LSB\[:ZEROS\], gaussian:LSB"),
        ("coordinate:1:2", r"`perturbation` must be one of rademacher:LSB, sparse-uniform:LSB\[:ZEROS\], gaussian:LSB"),
        ("coordinate:0", "`mu` must be in 1..127. Received: 0"),
        ("coordinate:0.5", "invalid literal"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_distribution(text)
