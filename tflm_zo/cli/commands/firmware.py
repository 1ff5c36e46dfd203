# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo firmware``."""

from __future__ import annotations

import dataclasses
import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ...converters import Model, ZoMetadata, load_model, read_metadata
from ...converters.table import table
from ...data import Data, DataError, prepare
from ...firmware import (
    PLATFORMS,
    BlockSearch,
    Firmware,
    check_folder,
    check_names,
    generate_firmware,
    name_of,
)
from ...runtime import Inputs
from ...training import ALGORITHMS, Settings, SettingsError, algorithm_for, trained_layers
from ...training.length import check_length, planned_steps, usual_epochs
from ..options import BlockSearchOption, Epochs, Json, Steps, ZoModelFile, choice, parse_block_search
from ..results import show
from ..set_option import SetOption, make_settings, parse_set, split_set

EXAMPLE = "tflm-zo firmware lenet5.zo.tflite -o lenet5_firmware --data adapt.npz --samples 100 --epochs 5"

_SAMPLES = 100


# Options that say how the command runs, not what it makes.
_UNRECORDED = ("force", "as_json")


Output = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="FOLDER",
        help="Folder that the sources are written to.",
        show_default=False,
        rich_help_panel="Output",
    ),
]
Platform = Annotated[
    str,
    typer.Option(
        help="Build system that the folder is laid out for.", rich_help_panel="Output", **choice(PLATFORMS)
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="An .npz file with x and y, the samples that are compiled into the example (default: noise, "
        "which the device's own samples are to replace).",
        show_default=False,
        rich_help_panel="Data",
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help=f"Number of samples that the device trains on (default: all of --data, else {_SAMPLES}).",
        show_default=False,
        rich_help_panel="Data",
    ),
]
Algorithm = Annotated[
    str | None,
    typer.Option(
        **choice(ALGORITHMS, listed=False),
        help="Algorithm of the run, as `tflm-zo algorithms` lists them (default: the one that the model was "
        "made for).",
        show_default=False,
        rich_help_panel="Algorithm",
    ),
]
HeldOut = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Share of the samples by which --choose-block tells the best block (default: 0.2).",
        show_default=False,
        rich_help_panel="Data",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        help="Name of the model in the sources, of letters, digits and underscores (default: the file's name "
        "up to the first dot).",
        show_default=False,
        rich_help_panel="Output",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace the folder if it is generated firmware. Your own files in it are kept, and so are "
        "files of the example that you have changed.",
        rich_help_panel="Output",
    ),
]


def firmware(
    context: typer.Context,
    model: ZoModelFile,
    output: Output,
    platform: Platform = "cmake",
    data: DataOption = None,
    samples: Samples = None,
    epochs: Epochs = None,
    steps: Steps = None,
    algorithm: Algorithm = None,
    settings: SetOption = None,
    choose_block: BlockSearchOption = None,
    held_out: HeldOut = None,
    name: Name = None,
    force: ForceOption = False,
    as_json: Json = False,
) -> None:
    """Write the C and C++ that train a model on a microcontroller, for a build of TensorFlow Lite Micro.

    The folder has the model, the op pack, a resolver, the trainer, an example and the build system's files.
    A run on the device and one of `tflm-zo train --runtime tflm` with the same settings and samples give the
    same log and the same weights.
    """
    check_names(platform, name)
    search = _search(choose_block, held_out)
    if search is not None and data is None:
        raise SettingsError("--choose-block needs --data: blocks are judged by samples held out of it")
    check_folder(output, force=force)
    loaded = load_model(model)
    run = _run_settings(model, read_metadata(loaded), algorithm, settings)
    arrays, count = _device_samples(loaded, data, samples)
    check_length(epochs, steps, None)
    if epochs is None and steps is None:
        epochs = usual_epochs(count, run.batch_size)
    total = planned_steps(run, count, epochs, steps)
    made = generate_firmware(
        loaded,
        run,
        steps=total,
        samples=count,
        platform=platform,
        name=name_of(model) if name is None else name,
        command=_command(context),
        data=arrays,
        data_name="" if data is None else data.name,
        search=search,
    )
    kept = made.write(output, force=force)
    result: dict[str, Any] = {
        "output": str(output),
        "platform": platform,
        "algorithm": run.algorithm,
        "trains": dataclasses.asdict(trained_layers(loaded, run)),
        "steps": total,
        "samples": count,
        "samples_assumed": data is None and samples is None,
        "rate_assumed": run.measures_rate and data is None,
        "kept": kept,
        **_described(made),
    }
    show(result, as_json=as_json, render=lambda console: _render(console, result))


def _run_settings(
    model: Path, metadata: ZoMetadata, algorithm: str | None, given: list[str] | None
) -> Settings:
    usual = algorithm_for(metadata, algorithm)
    texts, injection = split_set(given)
    if injection:
        first = next(iter(injection)).replace("_", "-")
        raise SettingsError(f"--set {first}: {model} is a ZO model already")
    return make_settings(usual, parse_set(usual, texts), metadata)


def _described(made: Firmware) -> dict[str, Any]:
    return {
        "files": sorted(made.files),
        "arena_bytes": made.arena.bytes,
        "arena_measured": made.arena.measured,
        "workspace_bytes": made.workspace_bytes,
        "trainable_bytes": made.trainable_bytes,
        "model_bytes": made.model_bytes,
    }


def _device_samples(model: Model, data: Path | None, samples: int | None) -> tuple[Data | None, int]:
    """The samples that are compiled in, where there are any, and how many the device has."""
    if samples is not None and samples < 1:
        raise SettingsError(f"--samples: expected at least 1, got {samples}")
    if data is None:
        return None, samples or _SAMPLES
    arrays = prepare(Inputs(model), data)
    if samples is not None and samples > len(arrays):
        raise DataError(f"--samples: {data} has {len(arrays)}, got {samples}")
    arrays = arrays.take(slice(samples))
    return arrays, len(arrays)


def _search(text: str | None, held_out: float | None) -> BlockSearch | None:
    if text is None:
        if held_out is not None:
            raise SettingsError("--held-out needs --choose-block, whose probes it is for")
        return None
    return parse_block_search(text, held_out)


def _command(context: typer.Context) -> str:
    """The command line as one would type it again, without what is particular to this machine."""
    words = ["tflm-zo", context.info_name or "firmware"]
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        source = context.get_parameter_source(name)
        if name in _UNRECORDED or source is None or source.name != "COMMANDLINE":
            continue
        option = [] if parameter.param_type_name == "argument" else [parameter.opts[0]]
        for part in value if isinstance(value, (list, tuple)) else [value]:
            words += [*option, shlex.quote(_relative(part) if isinstance(part, Path) else str(part))]
    return " ".join(words)


def _relative(path: Path) -> str:
    """A path below the working directory, relative to it; the name alone of one elsewhere."""
    if not path.is_absolute():
        return str(path)
    here = os.path.relpath(path)
    return path.name if here.startswith("..") else here


def _render(console: Console, result: dict[str, Any]) -> None:
    row = {
        "algorithm": result["algorithm"],
        "steps": result["steps"],
        "samples": result["samples"],
        "arena": result["arena_bytes"],
        "workspace": result["workspace_bytes"],
        "weights": result["trainable_bytes"],
        "model": result["model_bytes"],
    }
    console.print(result["trains"]["sentence"], markup=False)
    if result["samples_assumed"]:
        console.print(
            f"takes it that the device has {result['samples']} samples: --samples or --data says how many",
            markup=False,
        )
    if result["rate_assumed"]:
        console.print(
            "takes the highest learning rate, which deep networks do not bear: --data measures one, "
            "--set learning-rate gives it",
            markup=False,
        )
    console.print(table("Firmware (bytes)", list(row), [list(row.values())]))
    how = "" if result["arena_measured"] else " (the arena is an upper bound: pip install 'tflm_zo[tflm]')"
    if result["kept"]:
        console.print(f"kept, yours: {', '.join(result['kept'])}", markup=False)
    console.print(
        f"{result['output']}: {len(result['files'])} files, {result['platform']}{how}", markup=False
    )
