# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: choice of models, runs on random data, progress bar. Not a benchmark itself."""

from .model_choice import add_models_argument, chosen_models
from .progress import progress
from .random_run import HEADROOM, random_data, trainable_model

__all__ = [
    "HEADROOM",
    "add_models_argument",
    "chosen_models",
    "progress",
    "random_data",
    "trainable_model",
]
