"""The generator of a firmware's folder."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Mapping

from .._version import __version__
from ..converters.errors import ConversionError
from ..converters.metadata import ZoMetadata, read_metadata
from ..converters.model import Model
from ..converters.model.schema import TensorType
from ..data import Data
from ..training.lowering import LoweredRun
from .amalgamation import Unit, join
from .boundaries import boundaries_of
from .config import config_source
from .device_model import DeviceModel, device_model
from .drift import drift_layer
from .features import features, unused_sources, with_features
from .folder import CHECKSUMS, checksums, write_folder
from .op_pack import of_model, op_pack_sources, without_model
from .platforms import PLATFORMS, Project
from .reachability import constants, identifiers, layers, reached, resolve, written
from .resolver import operators_of, resolver_source
from .self_test import self_test_source
from .sizes import Ram, ram_of, trainer_of
from .source_text import comment, fill, identifier, own
from .tables import C_TYPES, loss_output, model_source, run_settings

# The trainer of the model itself, which the op pack's trainers are joined to.
_CLASS_HEADER, _CLASS_SOURCE = "ops/model/trainer.h", "ops/model/trainer.cc"
_CLASS_OF_C = "ops/model/trainer_c.h"
# Sources that access the internals of TFLM's interpreters.
_SELF_TEST = "ops/device/zo_self_test.cc"
# Headers of the trainers for C and C++, and the headers for applications.
_FOR_C = ("ops/device/zo_application.h",)
_PUBLIC = (
    *("ops/core/zo_status.h", "ops/core/log/zo_log_store.h", "ops/core/log/zo_flash_store.h"),
    *("ops/core/link/zo_places.h", "ops/core/link/zo_link.h", "ops/core/link/zo_fleet.h"),
)
_OF_SOME = ("ops/core/loss/zo_calibration.h", "ops/core/math/zo_drift.h")
# Functions for programs with their own interpreter (examples/own_interpreter).
_OF_INTERPRETERS = (
    *("AddZoOps", "zo_control_init", "zo_control_next", "zo_control_report", "zo_control_settle"),
    *("zo_control_abandon", "zo_sample_at"),
)
# The order in which a reader meets the arithmetic.
_CORE_FOLDERS = (
    "ops/core/zo_",
    *(
        f"ops/core/{name}/"
        for name in "math random kernels weights papers loss nodes backward graph run log link".split()
    ),
)


@dataclasses.dataclass(frozen=True)
class Firmware:
    """A generated folder."""

    files: dict[str, str]  #: text of each file by its path.
    example: frozenset[str]  #: paths of the files that the user may change.
    ram: Ram  #: RAM of the run.
    trainable_bytes: int  #: size of weights, fractions and biases in the arena, bytes.
    model_bytes: int  #: size of the models in flash, bytes.
    no_self_test: str  #: reason why there is no self-test, or "".
    drift_layer: str  #: name of the layer at which the device reads the drift of data, or "".
    drift_bytes: int  #: RAM that the sums of a drift take, bytes.
    no_drift: str  #: reason why there is no such layer, or "".

    def write(self, folder: str | os.PathLike[str], *, force: bool = False) -> list[str]:
        """Writes the folder atomically, and returns the paths of kept files. The folder must not exist, or be empty;
        `force` replaces one that this function wrote, but for files that a user added, or changed in the example.

        Raises FileExistsError if the folder cannot be replaced (the message says why), OSError if it cannot be written.
        An older folder is unchanged after an error.
        """
        return write_folder(folder, self.files, self.example, force=force)


def _samples(
    given: Data | None, source: str, model: Model, metadata: ZoMetadata, names: Mapping[str, str], sequence: int
) -> str:
    loss = metadata.loss
    assert loss is not None
    fed = {
        port.index: tensor
        for k, segment in enumerate(metadata.segments)
        for port, tensor in zip(segment.inputs, model.subgraphs[k].inputs, strict=True)
        if port.role == "input" and port.index is not None
    }
    if given is None:
        sizes = {i: tensor.size // metadata.batch for i, tensor in fed.items()}
        of_int8 = loss.kind == "mse"
        return fill(
            "zo_samples_noise.cc.in",
            **names,
            inputs=[(sizes[i], C_TYPES[fed[i].type]) for i in sorted(sizes)],
            sequence=sequence,
            label_bytes=loss.labels * (1 if of_int8 else 4),
            classes=loss.classes,
            of_int8=of_int8,
        )
    count = len(given) * max(1, sequence)
    return fill(
        "zo_samples_data.cc.in",
        **names,
        count=count,
        data=source,
        sequence=sequence,
        inputs=[(C_TYPES[fed[i].type], values.reshape(count, -1)) for i, values in enumerate(given.inputs)],
        labels=given.labels.reshape(count, -1),
    )


def generate(
    model: Model,
    plan: LoweredRun,
    *,
    name: str,
    platform: str,
    command: str,
    samples: Data | None = None,
    data: str = "",
    sequence: int = 0,
) -> Firmware:
    """Generates the folder with which a TFLM build trains a ZO model with a loss on a device. `name` is the model's, of
    which an identifier is made, `platform` one of `PLATFORMS`, and `command` the command line for the files' first
    lines. `samples` from the file `data` are compiled into the example, and `sequence` is the number of steps of each
    (0: they are no sequences). Raises ConversionError if the model cannot be trained on a device.
    """
    metadata = read_metadata(model)
    _check(metadata, plan, sequence)
    builds, given, name, command = PLATFORMS[platform], name, identifier(name), comment(command)
    names, trainer = own(name), trainer_of(plan)
    device, wanted = device_model(model, plan), features(model, metadata, plan)
    drift, no_drift = drift_layer(model, metadata, device)
    arrays = _model_arrays(device, name)
    ram = ram_of(model, metadata, device, static_memory=builds.static_memory)
    sizes = {
        "trainable_bytes": metadata.bytes_of(device.trained),
        "model_bytes": sum(map(len, arrays.values())),
    }
    self_test, no_self_test = self_test_source(model, device)
    model_text, tables = model_source(
        model,
        metadata,
        device,
        name=name,
        arrays=arrays,
        least_arena=ram.arena.least,
        command=command,
        wanted=wanted,
        self_test=self_test,
        drift=drift,
    )
    of_class = {
        **names,
        "kind": trainer,
        "autoencoder": metadata.known_loss.kind == "mse",
        "tasks": len(plan.tasks),
        "block_segments": len(plan.block_segments) if plan.settings.blocks else 0,
        "interval": plan.interval,
        "boundaries": boundaries_of(model, metadata, device).beside,
        "tables": tables,
        "models": arrays,
        "drift": drift,
        "sequence": sequence,
    }
    own_class = {
        _CLASS_HEADER: fill("trainer_class.h.in", **of_class),
        _CLASS_OF_C: fill("trainer_class_c.h.in", **of_class),
        _CLASS_SOURCE: fill("trainer_class.cc.in", **of_class),
    }
    resolver = resolver_source(device.segments, name, command, int8=builds.int8)
    joined = _joined(
        _own_op_pack(plan, wanted),
        {path: without_model(text, name) for path, text in own_class.items()},
        without_model(model_text + resolver, name),
        wanted,
        {*builds.absent, *_absent(metadata, model, drift is not None, sequence)},
        _OF_INTERPRETERS if wanted["ZO_WITH_COMMANDS"] else (),
        name,
        command,
    )
    sources = {
        f"{names['zo']}_op_resolver.h": resolver,
        f"{names['zo']}_config.h": config_source(
            model,
            metadata,
            plan,
            ram,
            name=name,
            model_name=given,
            command=command,
            **sizes,
            tensors=len(device.trained),
            operators=len(operators_of(device.segments)),
            drift=drift,
            sequence=sequence,
        ),
        f"{names['zo']}_model.cc": model_text,
        **of_model(joined, name),
    }
    example = {f"{names['zo']}_samples.cc": _samples(samples, data, model, metadata, names, sequence)}
    layout = builds.lay_out(Project(name, command, sources, example, drift is not None, sequence))
    files = {**layout.files, CHECKSUMS: checksums(layout.files)}
    return Firmware(
        files,
        layout.example,
        ram,
        **sizes,
        no_self_test=no_self_test,
        drift_layer=drift.name if drift else "",
        drift_bytes=drift.sum_bytes if drift else 0,
        no_drift=no_drift,
    )


def _absent(metadata: ZoMetadata, model: Model, has_drift: bool, sequence: int) -> list[str]:
    """Returns the macros of ``zo_config.h`` that it does not define."""
    segment, index, *_ = loss_output(model, metadata)
    of_int8 = model.subgraphs[segment].outputs[index].type == TensorType.INT8
    there = {"ZO_DRIFT_SEGMENT": has_drift, "ZO_SEQUENCE": sequence > 0, "ZO_OUTPUT_TYPE": not of_int8}
    return [name for name, is_there in there.items() if not is_there]


def _check(metadata: ZoMetadata, plan: LoweredRun, sequence: int) -> None:
    if sequence > 1 and (plan.tasks or plan.settings.blocks):
        raise ConversionError(f"sequences of {sequence} steps train by weight perturbation of the whole model only")
    if not plan.tasks and plan.settings.blocks:
        late = [p for s in metadata.segments[1:] for p in s.inputs if p.role == "input"]
        if late:
            raise ConversionError("block by block, firmware trains models whose inputs enter segment 0 only")


def _model_arrays(device: DeviceModel, name: str) -> dict[str, bytes]:
    """Returns the arrays of the segments by name, in order."""
    contents = [segment.to_bytes() for segment in device.segments]
    names = [name] if len(contents) == 1 else [f"{name}_segment_{k}" for k in range(len(contents))]
    return {f"g_{own}_model_data": content for own, content in zip(names, contents, strict=True)}


def _joined(
    op_pack: Mapping[str, str],
    own_class: Mapping[str, str],
    model: str,
    wanted: Mapping[str, bool],
    absent: Collection[str],
    roots: Collection[str],
    name: str,
    command: str,
) -> dict[str, str]:
    """Returns the op pack and the model's trainer as few files, under names that are not yet the model's. `own_class`
    has the sources of the trainer, `model` the other C++ sources, which name the parts of the op pack that they use.
    `absent` are macros that no compiler of the platform defines, `roots` further names that programs may call.
    """
    known: dict[str, int | None] = {name: int(value) for name, value in wanted.items()}
    known |= {"ZO_KERNEL_SETS": 0, "__SSE2__": None}  # of desktops
    known |= {macro: None for macro in absent}
    sources = {**op_pack, **own_class}
    known = constants(sources, known)
    sources = {path: resolve(text, known) for path, text in sources.items()}
    operators = {path: text for path, text in sources.items() if path.startswith("ops/tflm/")}
    sources |= reached(operators, {*identifiers(model), *roots})
    core = {path: sources.pop(path) for folder in _CORE_FOLDERS for path in sorted(sources) if path.startswith(folder)}
    for path in (*_FOR_C, _CLASS_OF_C):
        if path in sources:
            core[path] = sources.pop(path)
    applications, trainers, rest = layers(
        core,
        [*_PUBLIC, *(path for path in _OF_SOME if path in own_class[_CLASS_OF_C]), _CLASS_OF_C],
        set().union(*(identifiers(text) for text in (*sources.values(), model))),
        {*wanted, *roots},
    )
    device = sorted(path for path in sources if path.startswith("ops/device/"))
    trainer = f"{name}_zo::Trainer, which trains the model under TensorFlow Lite Micro"
    headers = [path for path in device if path.endswith(".h")]
    files = [path for path in device if path.endswith(".cc") and path != _SELF_TEST]
    again = f"Generated by tflm_zo {__version__}. Do not edit; generate it again:\n  {command}"
    public = Unit(
        "zo_ops.h",
        f"{again}\n\nThe functions that a program calls to train {name}: stores of logs and\n"
        "weights, links to a host, and the trainer. zo_trainer.h has the trainer as a class of C++.",
        c_roots=[path for path in core if path in applications],
        guard="ZO_OPS_H_",
    )
    internal = Unit(
        "zo_ops_internal.h",
        f"{again}\n\nWhat the trainer and the operators call of the op pack. No program need include it.",
        c_roots=[path for path in core if path in trainers],
        includes=("zo_ops.h",),
        guard="ZO_OPS_INTERNAL_H_",
    )
    arithmetic = Unit(
        "zo_ops.c",
        f"{again}\n\nThe op pack of {name}: C99, integers, no heap.",
        [path for path in core if path in rest and path.endswith(".c")],
        includes=("zo_ops_internal.h",),
    )
    of_cpp = (
        Unit(
            "zo_trainer.h",
            f"{again}\n\n{trainer},\nand the registration of the op pack's operators.",
            ["ops/tflm/zo_ops.h", *headers, _CLASS_HEADER],
            includes=("zo_config.h", "zo_ops.h"),
            cpp_includes=("zo_ops_internal.h",),
            guard="ZO_TRAINER_H_",
        ),
        Unit(
            "zo_tflm.cc",
            f"{again}\n\nThe op pack's operators under TensorFlow Lite Micro, and the self-test.",
            ["ops/tflm/zo_ops.cc", _SELF_TEST],
            includes=("zo_trainer.h",),
        ),
        Unit("zo_trainer.cc", f"{again}\n\n{trainer}.", [*files, _CLASS_SOURCE], includes=("zo_trainer.h",)),
    )
    sources = {path: written(text) for path, text in sources.items()}
    made = join([public], applications) | join([internal], trainers) | join([arithmetic], rest)
    return made | join(of_cpp, sources)


def _own_op_pack(plan: LoweredRun, wanted: dict[str, bool]) -> dict[str, str]:
    """Returns the op pack for one run: without unused trainers, features and papers' variants, and with memory for its
    queries. Headers have features and queries, because not every build system lets a library define macros for its
    users.
    """
    most = max([int(plan.settings.queries), *(t.queries for t in plan.tasks)])
    own = trainer_of(plan)
    others = ("node",) if own == "weight" else ("weight",)
    fleet = () if own == "weight" else ("ops/core/link/zo_fleet.",)
    left_out = (*(f"ops/device/zo_{other}_trainer" for other in others), *fleet, *unused_sources(wanted))
    sources = {path: text for path, text in op_pack_sources().items() if not path.startswith(left_out)}
    types = "ops/core/zo_types.h"
    sources[types], found = re.subn(r"(?m)^(#define ZO_MAX_QUERIES) \d+$", rf"\1 {most}", sources[types])
    if found != 1:
        raise ConversionError(f"{types} does not define ZO_MAX_QUERIES once: install tflm_zo again")
    if not plan.tasks:
        header, end = "ops/core/run/zo_run_settings.h", "} zo_control_settings;\n\n"
        values = run_settings(plan).replace("\n", " \\\n")
        if sources[header].count(end) != 1 or "#ifdef ZO_RUN_SETTINGS" not in sources[header]:
            raise ConversionError(f"{header} knows no ZO_RUN_SETTINGS: install tflm_zo again")
        sources[header] = sources[header].replace(end, f"{end}#define ZO_RUN_SETTINGS {values}\n")
    switches = "ops/core/zo_features.h"
    sources[switches] = with_features(sources[switches], wanted)
    return sources
