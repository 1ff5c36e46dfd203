# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: models, interpreters, runs on random data, a progress bar. No benchmark."""

from .interpreters import KINDS, interpreter
from .model_choice import add_models_argument, chosen_models
from .progress import progress
from .random_run import HEADROOM, random_data, trainable_model

__all__ = [
    "HEADROOM",
    "KINDS",
    "add_models_argument",
    "chosen_models",
    "interpreter",
    "progress",
    "random_data",
    "trainable_model",
]
