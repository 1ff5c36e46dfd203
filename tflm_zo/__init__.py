"""Training on microcontrollers with forward passes only.

    import tflm_zo as zo

    adapted = zo.adapt("model.tflite", x, y, zo.algorithms.node(batch_size=16), epochs=20)
    adapted.save("adapted.tflite")
    zo.evaluate("adapted.tflite", x_test, y_test)

ARCHITECTURE.md describes the packages. Each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from . import adaptation as adaptation
    from . import conversion as conversion
    from . import converters as converters
    from . import core as core
    from . import data as data
    from . import features as features
    from . import firmware as firmware
    from . import fleet as fleet
    from . import keras_models as keras_models
    from . import link as link
    from . import logs as logs
    from . import planner as planner
    from . import recalibration as recalibration
    from . import report as report
    from . import runtime as runtime
    from . import training as training
    from .adaptation import Adaptation as Adaptation
    from .adaptation import Calibration as Calibration
    from .adaptation import Observer as Observer
    from .adaptation import adapt as adapt
    from .adaptation import calibrate as calibrate
    from .adaptation import evaluate as evaluate
    from .conversion.keras import convert as convert
    from .conversion.quantize import quantize as quantize
    from .converters import ConversionError as ConversionError
    from .converters import InjectSettings as InjectSettings
    from .converters import Last as Last
    from .converters import Model as Model
    from .converters import ResidualBlocks as ResidualBlocks
    from .converters import export_model as export_model
    from .converters import inject as inject
    from .converters import load_model as load_model
    from .core import Coordinate as Coordinate
    from .core import Distribution as Distribution
    from .core import Gaussian as Gaussian
    from .core import NativeError as NativeError
    from .core import Rademacher as Rademacher
    from .core import SparseUniform as SparseUniform
    from .data import DataError as DataError
    from .firmware import generate_firmware as generate_firmware
    from .link import LinkError as LinkError
    from .link import open_port as open_port
    from .link.collect import collect as collect
    from .link.deploy import deploy as deploy
    from .logs import LogError as LogError
    from .logs import replay_log as replay_log
    from .planner.plan import plan as plan
    from .recalibration import RunningMoments as RunningMoments
    from .recalibration.drift import drift as drift
    from .recalibration.recalibrate import recalibrate as recalibrate
    from .report import write_report as write_report
    from .runtime.litert import exact_delegate as exact_delegate
    from .training import Bits as Bits
    from .training import Callback as Callback
    from .training import Checkpoint as Checkpoint
    from .training import Constant as Constant
    from .training import Cosine as Cosine
    from .training import CSVLogger as CSVLogger
    from .training import EarlyStopping as EarlyStopping
    from .training import Exact as Exact
    from .training import Gradient as Gradient
    from .training import History as History
    from .training import Linear as Linear
    from .training import Nodes as Nodes
    from .training import Normalized as Normalized
    from .training import PerError as PerError
    from .training import ProgressBar as ProgressBar
    from .training import Rms as Rms
    from .training import RunProgress as RunProgress
    from .training import Settings as Settings
    from .training import SettingsError as SettingsError
    from .training import Sign as Sign
    from .training import Standardized as Standardized
    from .training import Step as Step
    from .training import TensorBoard as TensorBoard
    from .training import Trainer as Trainer
    from .training import Weights as Weights
    from .training import algorithms as algorithms
    from .training import compare_runtimes as compare_runtimes

# What the interpreter imports, and from where: it does not read the imports above, and type checkers read only those.
_NAMES: Final = {
    "": (
        "adaptation conversion converters core data features firmware fleet keras_models link logs planner "
        "recalibration report runtime training"
    ),
    "adaptation": "Adaptation Calibration Observer adapt calibrate evaluate",
    "conversion.keras": "convert",
    "conversion.quantize": "quantize",
    "converters": "ConversionError InjectSettings Last Model ResidualBlocks export_model inject load_model",
    "core": "Coordinate Distribution Gaussian NativeError Rademacher SparseUniform",
    "data": "DataError",
    "firmware": "generate_firmware",
    "link": "LinkError open_port",
    "link.collect": "collect",
    "link.deploy": "deploy",
    "logs": "LogError replay_log",
    "planner.plan": "plan",
    "recalibration": "RunningMoments",
    "recalibration.drift": "drift",
    "recalibration.recalibrate": "recalibrate",
    "report": "write_report",
    "runtime.litert": "exact_delegate",
    "training": (
        "Bits Callback Checkpoint Constant Cosine CSVLogger EarlyStopping Exact Gradient History Linear "
        "Nodes Normalized PerError ProgressBar Rms RunProgress Settings SettingsError Sign Standardized "
        "Step TensorBoard Trainer Weights algorithms compare_runtimes"
    ),
}
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted([*_HOMES, "__version__"])


if not TYPE_CHECKING:  # a type checker would take every name for one that is there

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if not _HOMES[name]:
            return importlib.import_module(f".{name}", __name__)
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value  # so that the next use finds it
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
