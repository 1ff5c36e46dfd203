"""The generation of firmware: plans the run and generates the folder.

generate_firmware("lenet5.zo.tflite", steps=50, samples=100).write("lenet5_firmware")
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from ..converters import ConversionError, Model, load_model, read_metadata
from ..converters.states import is_streaming
from ..core import MEASUREMENT_BYTES, SNAPSHOT_RECORD_BYTES, STORE_UNIT_MOST, StepRecord
from ..data import Data, Inputs, Samples, prepare
from ..runtime import load_fastest
from ..training.algorithms import algorithm_of, usual_settings
from ..training.checks import SettingsError
from ..training.lowering import LoweredRun, StepMemory, lower
from ..training.model_fit import check_model
from ..training.rate import with_measured_rate
from ..training.settings import Settings
from .generate import Firmware, generate
from .platforms import PLATFORMS
from .source_text import identifier, is_identifier

__all__ = ["check_names", "generate_firmware", "name_of", "plan_run"]


def measured(model: Model, settings: Settings, data: Data | None, steps: int) -> Settings:
    """Measures the learning rate if the settings give none, as `Trainer.fit` does. Without data the settings
    are returned unchanged, so the rate is the highest one.
    """
    if data is None or not settings.measures_rate:
        return settings
    return with_measured_rate(load_fastest(model), model, settings, data, steps)[0]


def plan_run(model: Model, settings: Settings, *, steps: int, samples: int) -> LoweredRun:
    """Lowers a run for the control unit. Raises SettingsError if the model does not fit the settings."""
    metadata = read_metadata(model)
    for name, value in (("steps", steps), ("samples", samples)):
        if not 1 <= value < 2**32:
            raise SettingsError(name, f"be in 1..{2**32 - 1}", value)
    check_model(settings, metadata)
    run = lower(model, metadata, settings, steps=steps, samples=samples)
    words = {
        "algorithm": settings.algorithm or algorithm_of(metadata),
        "steps": str(steps),
        "samples": str(samples),
        "minibatch": str(run.minibatch),
        "seed": str(settings.seed),
    }
    _check_log(SNAPSHOT_RECORD_BYTES if run.tasks else StepRecord.size_of(int(run.settings.queries)), steps)
    return dataclasses.replace(run, words=words)


def _check_log(record: int, steps: int) -> None:
    """Raises SettingsError if the offsets of a log's records do not fit 32 bits in every store."""
    # A run that measures itself after every step.
    step = sum(-(-size // STORE_UNIT_MOST) * STORE_UNIT_MOST for size in (record, MEASUREMENT_BYTES))
    most = 2**31 // step
    if steps > most:
        raise SettingsError("steps", f"be in 1..{most}, because a device's store has offsets of 32 bits", steps)


def name_of(path: str | os.PathLike[str]) -> str:
    """Returns a model's name from its file: the part before the first dot, as an identifier."""
    return identifier(Path(path).name.split(".")[0])


def check_names(platform: str, name: str | None) -> None:
    """Checks the names of a platform and a model before the work begins. Raises SettingsError if the platform is not
    known, or the model's name is not valid in names of files and variables.
    """
    if platform not in PLATFORMS:
        raise SettingsError("platform", f"be one of {', '.join(PLATFORMS)}", platform)
    if name is not None and not is_identifier(name):
        raise SettingsError("name", "be up to 48 letters, digits and underscores, a letter first", name)


def generate_firmware(
    model: Model | bytes | str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    steps: int,
    samples: int,
    platform: str = "cmake",
    name: str | None = None,
    command: str = "tflm_zo.generate_firmware",
    data: Samples | None = None,
    data_name: str = "",
    sequence: int | None = None,
    memory: StepMemory | None = None,
) -> Firmware:
    """Generates a folder of C and C++ that trains a model in a build of TensorFlow Lite Micro.

    A desktop run with the same model, settings, steps and samples gives the same log and weights.

    Args:
        model: a ZO model, its bytes or path.
        settings: settings of the run; None: those of the algorithm that the model was made for.
        steps: number of steps of the whole run.
        samples: number of samples on the device.
        platform: name of the build system, one of ``PLATFORMS``.
        name: name of the model, of letters, digits and underscores; None: the file's name.
        command: command line, for the files' first lines.
        data: samples and labels to compile into the example, from `tflm_zo.data.prepare`.
        data_name: name of the file that the samples are from.
        sequence: number of steps of each sample, of a streaming model; None: that of the data.
        memory: how the device saves memory in a step, of a run that fits (`fit`); None: it saves none.

    Raises:
        ConversionError: the model cannot be trained on a device.
        SettingsError: the model does not fit the settings, the platform is not known, or the name is not valid.
    """
    check_names(platform, name)
    zo = load_model(model)
    metadata = read_metadata(zo)
    if metadata.loss is None:
        raise ConversionError("the model has no loss, so it cannot train; inject it with one")
    own = settings if settings is not None else usual_settings(metadata)
    if name is None:
        name = name_of(model) if isinstance(model, (str, os.PathLike)) else "model"
    arrays = None if data is None else prepare(Inputs(zo), data)
    plan = plan_run(zo, measured(zo, own, arrays, steps), steps=steps, samples=samples)
    plan = dataclasses.replace(plan, memory=memory or plan.memory)
    length = _sequence(zo, arrays, sequence)
    return generate(
        zo, plan, name=name, platform=platform, command=command, samples=arrays, data=data_name, sequence=length
    )


def _sequence(zo: Model, data: Data | None, given: int | None) -> int:
    """Returns the number of steps of a sample; 0 if samples are no sequences."""
    known = None if data is None else data.steps
    if given is not None and (given < 1 or known not in (None, given) or not is_streaming(zo)):
        wanted = f"be {known}, that of the data" if known is not None else "be at least 1, of a streaming model"
        raise SettingsError("sequence", wanted, given)
    if given is None and known is None and is_streaming(zo):
        raise SettingsError(
            "sequence", "be the number of steps of a sample of a streaming model", None, "Or give the data"
        )
    length = known or given or 1
    return length if length > 1 or is_streaming(zo) else 0
