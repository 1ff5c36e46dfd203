"""LeNet-5 trained layer by layer: all but its first convolution by nodes."""

from typing import Any

import numpy as np

from helpers.models import lenet5
from helpers.runs import settings_of
from tflm_zo import inject
from tflm_zo.converters import Model
from tflm_zo.training import Settings, algorithm, inject_settings

RNG = np.random.default_rng(11)
X = RNG.integers(-128, 128, (40, 28, 28, 1)).astype(np.int8)
Y = RNG.integers(0, 10, 40)


def mixed(**options: Any) -> Model:
    """Injects LeNet-5; conv1 alone carries no nodes."""
    return inject(lenet5(), inject_settings(algorithm("poor-mans-training"), batch=8), **options)


def poor_mans(**options: Any) -> Settings:
    queries = {"nodes.queries": 2, "weights.queries": 2}
    settings = settings_of("poor-mans-training", {"batch_size": 8, **queries, **options})
    return settings
