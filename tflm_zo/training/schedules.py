"""Schedules of the learning rate, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from .checks import check_integer, check_number


@dataclass(frozen=True)
class _Warmed:
    warmup: int = field(default=0, kw_only=True)
    _mean_square: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "warmup", check_integer("warmup", self.warmup, 0, 2**31))

    @property
    def last_rate(self) -> float:
        """The rate at the last step; 0 if the schedule has none."""
        return 0.0

    def mean_square(self, steps: int) -> float:
        """Returns the mean square of the rate over a run of so many steps that starts at 1 and ends at 0."""
        return self._mean_square


@dataclass(frozen=True)
class Constant(_Warmed):
    """The rate stays the same.

    Attributes:
        warmup: number of first steps over which the rate rises linearly, 0..2^31.

    Raises:
        SettingsError: the number is out of range.
    """


@dataclass(frozen=True)
class _Falling(_Warmed):
    final: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("final", self.final, 0.0, 2.0**14)

    @property
    def last_rate(self) -> float:
        """The rate at the last step."""
        return self.final


@dataclass(frozen=True)
class Linear(_Falling):
    """The rate falls linearly to `final`.

    Attributes:
        final: rate at the last step, 0..learning_rate.
        warmup: number of first steps over which the rate rises linearly, 0..2^31.

    Raises:
        SettingsError: a number is out of range.
    """

    _mean_square: ClassVar[float] = 1 / 3


@dataclass(frozen=True)
class Cosine(_Falling):
    """The rate falls along a half cosine to `final`.

    Attributes:
        final: rate at the last step, 0..learning_rate.
        warmup: number of first steps over which the rate rises linearly, 0..2^31.

    Raises:
        SettingsError: a number is out of range.
    """

    _mean_square: ClassVar[float] = 3 / 8


@dataclass(frozen=True)
class Step(_Falling):
    """The rate falls by a factor every few steps.

    Attributes:
        decay: factor by which schedule `Step` lowers the rate, 0..1.
        every: number of steps between two decays of schedule `Step`, 1..2^31.
        final: rate at the last step; by `Step` the lowest rate, 0..learning_rate.
        warmup: number of first steps over which the rate rises linearly, 0..2^31.

    Raises:
        SettingsError: a number is out of range.
    """

    decay: float = 0.5
    every: int = 1000
    final: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("decay", self.decay, 0.0, 1.0)
        object.__setattr__(self, "every", check_integer("every", self.every, 1, 2**31))

    def mean_square(self, steps: int) -> float:
        """Returns the mean square of the rate over a run of so many steps that starts at 1."""
        ratio, (stages, rest) = self.decay**2, divmod(steps, self.every)
        whole = stages if ratio == 1 else (1 - ratio**stages) / (1 - ratio)
        return (whole * self.every + rest * ratio**stages) / steps


Schedule = Constant | Linear | Cosine | Step
"""A schedule of the learning rate."""

#: Schedules by name, in the order of the control units' numbers.
SCHEDULES: Final[Mapping[str, type[Schedule]]] = {
    "constant": Constant,
    "linear": Linear,
    "cosine": Cosine,
    "step": Step,
}
