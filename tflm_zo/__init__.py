# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Training on microcontrollers with forward passes only.

    import tflm_zo as zo

    trainer = zo.Trainer("model.tflite", zo.algorithms.node(batch_size=16))
    trainer.fit(x, y, epochs=2, log="run.zolog")
    trainer.evaluate(x_test, y_test)
    trainer.export("adapted.tflite")

`training` has the trainer and what watches it, `converters` rewrites models, `runtime` runs them, `planner`
foretells what training takes of a device, `firmware` writes what the device needs, and `core` is the op
pack's arithmetic. ARCHITECTURE.md describes how they work together.
"""

from __future__ import annotations

from . import converters, core, runtime, training
from ._version import __version__
from .conversion import convert, quantize
from .converters import ConversionError, InjectSettings, Model, inject, load_model
from .core import Command, Coordinate, Distribution, Gaussian, NativeError, Rademacher, SparseUniform
from .data import DataError
from .logs import LogError
from .planner import plan
from .recalibration import RunningMoments, recalibrate
from .report import write_report
from .runtime import exact_delegate
from .training import (
    Callback,
    CSVLogger,
    EarlyStopping,
    Exact,
    History,
    Nodes,
    ProgressBar,
    Settings,
    SettingsError,
    TensorBoard,
    Trainer,
    Weights,
    algorithms,
    choose_block,
)

__all__ = [
    "CSVLogger",
    "Callback",
    "Command",
    "ConversionError",
    "Coordinate",
    "DataError",
    "Distribution",
    "EarlyStopping",
    "Exact",
    "Gaussian",
    "History",
    "InjectSettings",
    "LogError",
    "Model",
    "NativeError",
    "Nodes",
    "ProgressBar",
    "Rademacher",
    "RunningMoments",
    "Settings",
    "SettingsError",
    "SparseUniform",
    "TensorBoard",
    "Trainer",
    "Weights",
    "__version__",
    "algorithms",
    "choose_block",
    "converters",
    "convert",
    "core",
    "exact_delegate",
    "inject",
    "load_model",
    "plan",
    "quantize",
    "recalibrate",
    "runtime",
    "training",
    "write_report",
]
