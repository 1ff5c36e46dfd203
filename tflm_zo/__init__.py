"""Training on microcontrollers with forward passes only.

    import tflm_zo as zo

    adapted = zo.adapt("model.tflite", x, y, zo.algorithms.node(batch_size=16), epochs=20)
    adapted.save("adapted.tflite")
    zo.evaluate("adapted.tflite", x_test, y_test)

ARCHITECTURE.md describes the packages. Each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ._version import __version__

if TYPE_CHECKING:
    from . import (
        adaptation,
        conversion,
        converters,
        core,
        data,
        features,
        firmware,
        fleet,
        keras_models,
        link,
        logs,
        planner,
        recalibration,
        report,
        runtime,
        training,
    )
    from .adaptation import Adaptation, Observer, adapt, evaluate
    from .conversion.keras import convert
    from .conversion.quantize import quantize
    from .converters import (
        ConversionError,
        InjectSettings,
        Last,
        Model,
        Random,
        ResidualBlocks,
        Threshold,
        TopK,
        export_model,
        inject,
        load_model,
    )
    from .core import Coordinate, Distribution, Gaussian, NativeError, Rademacher, SparseUniform
    from .data import DataError
    from .firmware import generate_firmware
    from .link import LinkError, open_port
    from .link.collect import collect
    from .link.deploy import deploy
    from .logs import LogError, replay_log
    from .planner.plan import plan
    from .recalibration import RunningMoments
    from .recalibration.drift import drift
    from .recalibration.recalibrate import recalibrate
    from .report import write_report
    from .runtime.litert import exact_delegate
    from .training import (
        Bits,
        Callback,
        Checkpoint,
        Constant,
        Cosine,
        CSVLogger,
        EarlyStopping,
        Exact,
        Gradient,
        History,
        Linear,
        Momentum,
        Nodes,
        Normalized,
        ProgressBar,
        Rms,
        RunProgress,
        Settings,
        SettingsError,
        Sign,
        Standardized,
        Step,
        TensorBoard,
        Trainer,
        Weights,
        algorithms,
        compare_runtimes,
    )

__all__ = [
    "Adaptation",
    "Bits",
    "CSVLogger",
    "Callback",
    "Checkpoint",
    "Constant",
    "ConversionError",
    "Coordinate",
    "Cosine",
    "DataError",
    "Distribution",
    "EarlyStopping",
    "Exact",
    "Gaussian",
    "Gradient",
    "History",
    "InjectSettings",
    "Last",
    "Linear",
    "LinkError",
    "LogError",
    "Model",
    "Momentum",
    "NativeError",
    "Nodes",
    "Normalized",
    "Observer",
    "ProgressBar",
    "Rademacher",
    "Random",
    "ResidualBlocks",
    "Rms",
    "RunProgress",
    "RunningMoments",
    "Settings",
    "SettingsError",
    "Sign",
    "SparseUniform",
    "Standardized",
    "Step",
    "TensorBoard",
    "Threshold",
    "TopK",
    "Trainer",
    "Weights",
    "__version__",
    "adapt",
    "adaptation",
    "algorithms",
    "collect",
    "compare_runtimes",
    "conversion",
    "convert",
    "converters",
    "core",
    "data",
    "deploy",
    "drift",
    "evaluate",
    "exact_delegate",
    "export_model",
    "features",
    "firmware",
    "fleet",
    "generate_firmware",
    "inject",
    "keras_models",
    "link",
    "load_model",
    "logs",
    "open_port",
    "plan",
    "planner",
    "quantize",
    "recalibrate",
    "recalibration",
    "replay_log",
    "report",
    "runtime",
    "training",
    "write_report",
]

# Homes of the names that are neither packages nor names of `training`. Type checkers read the imports above.
_HOMES: Final = {
    "adaptation": ("Adaptation", "Observer", "adapt", "evaluate"),
    "conversion.keras": ("convert",),
    "conversion.quantize": ("quantize",),
    "converters": (
        "ConversionError",
        "InjectSettings",
        "Last",
        "Model",
        "Random",
        "ResidualBlocks",
        "Threshold",
        "TopK",
        "export_model",
        "inject",
        "load_model",
    ),
    "core": ("Coordinate", "Distribution", "Gaussian", "NativeError", "Rademacher", "SparseUniform"),
    "data": ("DataError",),
    "firmware": ("generate_firmware",),
    "link": ("LinkError", "open_port"),
    "link.collect": ("collect",),
    "link.deploy": ("deploy",),
    "logs": ("LogError", "replay_log"),
    "planner.plan": ("plan",),
    "recalibration": ("RunningMoments",),
    "recalibration.drift": ("drift",),
    "recalibration.recalibrate": ("recalibrate",),
    "report": ("write_report",),
    "runtime.litert": ("exact_delegate",),
}


if not TYPE_CHECKING:  # a type checker would take every name for one that is there

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if find_spec(f".{name}", __name__):
            return importlib.import_module(f".{name}", __name__)
        home = next((module for module, names in _HOMES.items() if name in names), "training")
        value = getattr(importlib.import_module(f".{home}", __name__), name)
        globals()[name] = value  # so that the next use finds it
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
