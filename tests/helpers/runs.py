"""Short runs on random samples, and settings from one flat table of names, as ``--set`` has them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tflm_zo.training import Settings, Trainer, Weights, algorithm
from tflm_zo.training.setting_texts import changed


def random_samples(
    seed: int | np.random.Generator, count: int = 24, shape: tuple[int, ...] = (8, 8, 1), classes: int = 4
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Draws inputs over the whole range of int8, by default for ``small_cnn``, and labels."""
    rng = np.random.default_rng(seed)
    return rng.integers(-128, 128, (count, *shape)).astype(np.int8), rng.integers(0, classes, count)


def state(trainer: Trainer) -> dict[str, bytes]:
    """Returns the trained weights and fractions, for comparisons with another trainer or with `packed`."""
    return packed(trainer.runtime.read_weights(), trainer.runtime.read_fractions())


def packed(weights: dict[str, Any], fractions: dict[str, Any]) -> dict[str, bytes]:
    """Returns weights and fractions that were read or replayed, under names that tell them apart."""
    return {f"{kind}/{k}": v.tobytes() for kind, d in enumerate((weights, fractions)) for k, v in d.items()}


def weight_settings(**given: Any) -> Settings:
    """Makes settings of weight perturbation alone, with minibatches of 64."""
    return changed(Settings(tasks=(Weights(),), batch_size=64), given)


def layerwise_settings(**given: Any) -> Settings:
    """Makes settings of node perturbation and the tasks that names add."""
    return changed(Settings(), given)


def settings_of(name: str, given: dict[str, Any] | None = None, **more: Any) -> Settings:
    """Makes settings of an algorithm, with values by name."""
    return changed(algorithm(name), {**(given or {}), **more})
