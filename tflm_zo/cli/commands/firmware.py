"""``tflm-zo firmware``."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from rich.console import Console

from ...adaptation import model_of_run, recalibrates
from ...converters import Model, load_model, read_metadata
from ...data import Data, DataError, Inputs, prepare
from ...firmware import PLATFORMS, check_folder, check_names, fit, generate_firmware, name_of
from ...io.table import table
from ...planner import plan
from ...planner.boards import find_board, find_core
from ...planner.ways import LADDER
from ...training import ALGORITHMS, Settings, SettingsError, trained_layers
from ...training.algorithms import algorithm_of
from ...training.costs import run_costs
from ...training.injection import is_zo
from ...training.length import check_length, planned_steps, usual_epochs
from ...training.setting_texts import MEASURED_RATE, run_of
from ..failures import note
from ..options import BoardName, Epochs, ForwardOnly, Json, Ram, Steps, argument, choice, option, optional, parse_bytes
from ..output_file import check_outputs, write_output
from ..results import show
from ..set_option import SetOption, parse_injection, run_options, split_set

EXAMPLE = "tflm-zo firmware lenet5.zo.tflite -o lenet5_firmware --data adapt.npz --samples 100 --epochs 5"

_SAMPLES = 100


# Options that do not affect the generated files.
_UNRECORDED = ("force", "as_json")


def firmware(
    context: typer.Context,
    model: Annotated[
        Path,
        argument(
            "MODEL",
            "A plain int8 model, of which a ZO model is made and written beside FOLDER, or a ZO model, as "
            "inject or train writes it.",
        ),
    ],
    output: Annotated[Path, optional("FOLDER", "Output folder of the sources.", "Output", "-o", "--output")],
    platform: Annotated[str, option("Build system of the folder.", "Output", **choice(PLATFORMS))] = "cmake",
    data: Annotated[
        Path | None,
        optional(
            "FILE",
            "An .npz file with x and y, the samples of the example (default: random samples, to replace by your own).",
            "Data",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        optional("N", f"Number of training samples on the device (default: all of --data, else {_SAMPLES}).", "Data"),
    ] = None,
    sequence: Annotated[
        int | None,
        optional("N", "Steps of a sample, of a streaming model (default: those of --data).", "Data"),
    ] = None,
    epochs: Epochs = None,
    steps: Steps = None,
    algorithm: Annotated[
        str | None,
        optional(
            None,
            "Algorithm of the run, as `tflm-zo algorithms` lists them (default: the one that a ZO model was made for;"
            " for a plain MODEL the first way of `tflm-zo plan` that fits).",
            "Algorithm",
            **choice(ALGORITHMS, listed=False),
        ),
    ] = None,
    settings: SetOption = None,
    board: BoardName = None,
    ram: Ram = None,
    forward_only: ForwardOnly = False,
    name: Annotated[
        str | None,
        optional(
            None,
            "Name of the model in the sources, of letters, digits and underscores (default: the file's name "
            "up to the first dot).",
            "Output",
        ),
    ] = None,
    force: Annotated[
        bool,
        option(
            "Replace a folder of generated firmware. Your own files and your changes of the example are kept.",
            "Output",
            "--force",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the C and C++ that train a model on a microcontroller, for a build of TensorFlow Lite Micro.

    The folder has the model, the op pack, a resolver, the trainer, an example and the build system's files.
    A run on the device and one of `tflm-zo train --runtime tflm` with the same settings and samples give the
    same log and the same weights. For a plain MODEL, FOLDER.zo.tflite is written, too, the ZO model that such
    a run and `tflm-zo replay` take. A run that needs more RAM than the device of --board or --ram has (default: those
    of train) saves memory in its steps, with the same results, or is an error.
    """
    check_names(platform, name)
    check_folder(output, force=force)
    target = None if board is None else find_board(board)
    most = parse_bytes("--ram", ram) or (target.ram * 1024 if target else None)
    given = load_model(model)
    texts, injection_texts = split_set(settings)
    recorded = dict[str, str]()
    if is_zo(given):
        metadata = read_metadata(given)
        recorded = run_of(metadata) if algorithm in (None, algorithm_of(metadata)) else recorded
        most = most or (int(recorded["ram"]) if "ram" in recorded else None)
        if forward_only:
            raise SettingsError("forward_only", "be left out, since the model is a ZO model already")
    elif data is not None and recalibrates(given, data, inject=parse_injection(injection_texts)):
        note(f"train recalibrates {model} first: its ZO model in the place of {model} makes the same run")
    if epochs is None and steps is None:
        epochs, steps = (int(recorded[n]) if n in recorded else None for n in ("epochs", "steps"))
    length = {"epochs": epochs, "steps": steps}
    found = _measured_rate(recorded, texts, data)
    changes, injection = run_options(settings, found)
    wanted: Settings | str | None = algorithm
    limited = forward_only or (most is not None and algorithm in (None, *LADDER))
    if not is_zo(given) and (limited or not (algorithm or settings)):  # as train without a choice
        planned = plan(given, board=board, ram=most, forward_only=forward_only, inject=injection)
        way = planned.fitting_of(algorithm)[0].way
        wanted, injection = way.settings, {**injection, "update_bits": way.update_bits}
    source = model_of_run(given, wanted, changes, inject=injection, batch=1, length=length)
    metadata = read_metadata(source.zo)
    if metadata.run and metadata.batch != 1:
        note(f"an operator ties {model} to its batch of {metadata.batch}")
    beside = None if source.zo is given else output.with_name(f"{output.name}.zo.tflite")
    check_outputs({"MODEL": model}, {"the ZO model of -o": beside}, force=force)
    arrays, count = _device_samples(source.zo, data, samples)
    loaded, run, fitted = source.zo, source.settings, None
    if most is not None:
        has_mve = target is not None and find_core(target.core).has_mve
        fitted = fit(loaded, run, most, has_mve=has_mve, platform=platform)
    check_length(epochs, steps, None)
    if epochs is None and steps is None:
        epochs = usual_epochs(run, count)
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
        sequence=sequence,
        memory=fitted.memory if fitted else None,
    )
    kept = made.write(output, force=force)
    invokes = arrays.steps if arrays is not None else sequence or 1  # of a sample
    if beside is not None:
        write_output(beside, loaded.to_bytes(), force=force)
    result: dict[str, Any] = {
        "output": str(output),
        "zo_model": None if beside is None else str(beside),
        "platform": platform,
        "algorithm": run.algorithm,
        "trains": dataclasses.asdict(trained_layers(loaded, run)),
        "memory_saved_by": fitted.sentences if fitted else (),
        "batch_size": run.batch_size,
        "steps": total,
        "step_forwards": _step_forwards(loaded, run, total) * invokes + (fitted.again if fitted else 0.0),
        "samples": count,
        "samples_assumed": data is None and samples is None,
        "rate_assumed": run.measures_rate and data is None,
        "kept": kept,
        "files": sorted(made.files),
        "ram_bytes": made.ram.bytes,
        "arena_bytes": made.ram.arena.bytes,
        "arena_bytes_mve": made.ram.arena.bytes_mve,
        "arena_measured": made.ram.arena.measured,
        "workspace_bytes": made.ram.workspace,
        "objects_bytes": made.ram.objects,
        "stack_bytes": made.ram.stack,
        "library_bytes": made.ram.libraries,
        "trainable_bytes": made.trainable_bytes,
        "model_bytes": made.model_bytes,
        "no_self_test": made.no_self_test,
        "drift_layer": made.drift_layer,
        "drift_bytes": made.drift_bytes,
        "no_drift": made.no_drift,
    }
    show(result, as_json=as_json, render=lambda console: _render(console, result))


def _measured_rate(recorded: Mapping[str, str], told: Mapping[str, str], data: Path | None) -> dict[str, Any]:
    """Returns the learning rate that train measured for the run of a ZO model, if none is given; with data none."""
    rate = recorded.get(MEASURED_RATE, "none")
    if data is not None or rate == "none" or "learning_rate" in told:
        return {}
    note(f"takes the learning rate that train measured, {float(rate):g} LSB; --data measures it")
    return {"learning_rate": float(rate)}


def _step_forwards(model: Model, run: Settings, steps: int) -> float:
    """Returns the forward equivalents of a step. A device runs layers that are not trained again for each sample."""
    return run_costs(run, model, read_metadata(model)).until(steps, steps * run.batch_size) / steps


def _device_samples(model: Model, data: Path | None, samples: int | None) -> tuple[Data | None, int]:
    """Returns the samples for the example, or None, and the number of the device's samples."""
    if samples is not None and samples < 1:
        raise SettingsError("--samples", "be at least 1", samples)
    if data is None:
        return None, samples or _SAMPLES
    arrays = prepare(Inputs(model), data)
    if samples is not None and samples > len(arrays):
        raise DataError(f"--samples: {data} has {len(arrays)}, got {samples}")
    arrays = arrays.take(slice(samples))
    return arrays, len(arrays)


def _command(context: typer.Context) -> str:
    """Returns the command line without options that depend on this machine."""
    words = ["tflm-zo", context.info_name or "firmware"]
    # By the hints: older releases of typer have strings here, and make paths of them for the call alone.
    hints = get_type_hints(firmware).items()
    paths = {name for name, hint in hints if Path in (hint, *get_args(hint))}
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        source = context.get_parameter_source(name)
        if name in _UNRECORDED or source is None or source.name != "COMMANDLINE":
            continue
        option = [] if parameter.param_type_name == "argument" else [parameter.opts[0]]
        for part in value if isinstance(value, (list, tuple)) else [value]:
            words += [*option, shlex.quote(_relative(Path(str(part))) if name in paths else str(part))]
    return " ".join(words)


def _relative(path: Path) -> str:
    """Returns a path relative to the working directory, or only the name of an absolute path elsewhere."""
    here = os.path.relpath(path) if path.is_absolute() else str(path)
    return path.name if path.is_absolute() and here.startswith("..") else here


def _render(console: Console, result: dict[str, Any]) -> None:
    row = {
        "algorithm": result["algorithm"],
        "steps": result["steps"],
        "samples": result["samples"],
        "a step": f"{result['step_forwards']:,.1f} inferences",
        "model in flash": result["model_bytes"],
        "arena": result["arena_bytes"],
        "workspace": result["workspace_bytes"],
        "objects": result["objects_bytes"],
        "stack": result["stack_bytes"],
        "libraries": result["library_bytes"],
    }
    row["RAM"] = sum(row[part] for part in ("arena", "workspace", "objects", "stack", "libraries"))
    console.print(result["trains"]["sentence"])
    for sentence in result["memory_saved_by"]:
        console.print(f"to save memory, {sentence}")
    if result["samples_assumed"]:
        console.print(f"takes it that the device has {result['samples']} samples: --samples or --data says how many")
    if result["rate_assumed"]:
        console.print(
            "takes the highest learning rate, which deep networks do not bear: --data measures one, "
            "--set learning-rate gives it"
        )
    console.print(table("Firmware (bytes)", list(row), [list(row.values())]))
    console.print(
        f"weights that are trained take {result['trainable_bytes']:,} bytes of the arena; with CMSIS-NN's "
        f"kernels for vectors (MVE) it is {result['arena_bytes_mve']:,} bytes, and RAM "
        f"{row['RAM'] - result['arena_bytes'] + result['arena_bytes_mve']:,}"
    )
    if result["no_self_test"]:
        console.print(f"without a self-test: {result['no_self_test']}")
    if result["no_drift"]:
        console.print(f"without a drift score: {result['no_drift']}")
    else:
        console.print(f"a drift score of {result['drift_layer']} takes {result['drift_bytes']:,} bytes of RAM more")
    how = "" if result["arena_measured"] else " (the arena is an upper bound: pip install 'tflm_zo[tflm]')"
    if result["kept"]:
        console.print(f"kept, yours: {', '.join(result['kept'])}")
    console.print(f"{result['output']}: {len(result['files'])} files, {result['platform']}{how}")
    if result["zo_model"] is not None:
        console.print(f"{result['zo_model']}: the ZO model, for replay")
