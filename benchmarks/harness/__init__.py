# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Shared code of the benchmarks: models, interpreters, runs on random data, a progress bar. No benchmark."""

from .core_peak import core_peak
from .interpreters import KINDS, interpreter
from .model_choice import add_models_argument, chosen_models
from .progress import progress
from .random_run import HEADROOM, random_data, trainable_model
from .weight_speed import nanoseconds_a_weight

__all__ = [
    "HEADROOM",
    "KINDS",
    "add_models_argument",
    "chosen_models",
    "core_peak",
    "interpreter",
    "nanoseconds_a_weight",
    "progress",
    "random_data",
    "trainable_model",
]
