"""Settings by name and as texts: how people write them, and how a ZO model keeps those of its run."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ..converters import ConversionError, Model, ZoMetadata, read_metadata
from ..converters.metadata import with_metadata
from ..converters.selections import ALL, Last, ResidualBlocks, TailChoice
from ..core import Coordinate, Distribution, Gaussian, Rademacher, SparseUniform
from .checks import SettingsError, check_choice
from .rules import EXACT_RULES, NODE_RULES, WEIGHT_RULES
from .schedules import SCHEDULES
from .settings import Settings
from .tasks import Exact, Nodes, Task, Weights

TASKS: Final[Mapping[str, type[Task]]] = {"nodes": Nodes, "exact": Exact, "weights": Weights}
_NOT_NAMED: Final = ("tasks", "algorithm")
# Settings that are values of one of several classes, which have names.
_KINDS: Final[Mapping[tuple[str, str], Mapping[str, type[Any]]]] = {
    ("", "schedule"): SCHEDULES,
    ("nodes", "rule"): NODE_RULES,
    ("exact", "rule"): EXACT_RULES,
    ("weights", "rule"): WEIGHT_RULES,
}


class Part(NamedTuple):
    """A field of a value that is a setting of its own on the command line and in stored settings."""

    owner: str  # task of the setting; "" for the run
    whole: str  # setting whose value has the field
    name: str  # name of the setting
    field: str  # name of the field
    default: Any  # value where the whole before lacks the field
    after: str  # setting behind which it is listed


PARTS: Final = (
    Part("", "schedule", "final_learning_rate", "final", 0.0, "learning_rate"),
    Part("", "schedule", "warmup_steps", "warmup", 0, "schedule"),
    Part("", "schedule", "decay", "decay", 0.5, "warmup_steps"),
    Part("", "schedule", "decay_steps", "every", 1000, "decay"),
    Part("nodes", "rule", "gradient_norm", "gradient_norm", False, "rule"),
    Part("nodes", "rule", "quantization_aware", "quantization_aware", False, "gradient_norm"),
    Part("exact", "rule", "bits", "bits", (5, 4, 3), "rule"),
    Part("weights", "rule", "clip", "clip", 3.0, "rule"),
    Part("weights", "rule", "gradient_norm", "gradient_norm", False, "scope"),
    Part("weights", "rule", "quantization_aware", "quantization_aware", False, "gradient_norm"),
    Part("weights", "rule", "bits", "bits", 1, "learning_rate"),
)

_SWITCHES: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
#: Result of a run before its first step: the measured learning rate, or "none".
MEASURED_RATE: Final = "measured-rate"
#: Further values of the run in a ZO model's metadata. The last two are in older models, of runs that chose layers.
BESIDES: Final = ("epochs", "steps", "start", "ram", MEASURED_RATE, "choose-block", "block")

# Settings that tflm_zo 0.1 wrote into ZO models, with their value where they had no effect; None: any.
_REMOVED: Final = {"int16": "none", "sharpness": "false", "momentum": "0", "momentum-terms": None}

_FORMS: Final = "be one of rademacher:LSB, sparse-uniform:LSB[:ZEROS], gaussian:LSB, coordinate:LSB"
_DISTRIBUTIONS: Final[Mapping[str, Callable[..., Distribution]]] = {
    "rademacher": Rademacher,
    "sparse-uniform": SparseUniform,
    "gaussian": Gaussian,
    "coordinate": Coordinate,
}


# --- names ------------------------------------------------------------------------------------------------


def _fields(owner: str) -> list[str]:
    names = [f.name for f in dataclasses.fields(TASKS.get(owner, Settings)) if f.name not in _NOT_NAMED]
    for part in PARTS:
        if part.owner == owner and part.name not in names:
            names.insert(names.index(part.after) + 1, part.name)
    return names


def _full(owner: str, name: str) -> str:
    return f"{owner}.{name}" if owner else name


def _part(owner: str, name: str) -> Part | None:
    return next((p for p in PARTS if (p.owner, p.name) == (owner, name)), None)


def every_name() -> list[str]:
    """Returns all names that a setting of any run may have."""
    of_tasks = [(owner, name) for owner in TASKS for name in _fields(owner)]
    return [*_fields(""), *(name for _, name in of_tasks), *(f"{owner}.{name}" for owner, name in of_tasks)]


def names(settings: Settings) -> list[str]:
    """Returns all setting names of a run, its own first; a name of two tasks has the task's name before it."""
    own = _fields("")
    of_tasks = [(owner, name) for owner, kind in TASKS.items() if settings.has(kind) for name in _fields(owner)]
    bare = [name for _, name in of_tasks]
    return own + [f"{owner}.{name}" if name in own or bare.count(name) > 1 else name for owner, name in of_tasks]


def resolve(settings: Settings, name: str) -> tuple[str, str]:
    """Returns the task ("" for the run) and the field that a name stands for, with a task's name and a dot before it
    where two settings share a name. Raises SettingsError if no setting has that name, or several have; the message
    lists them.
    """
    owner, dot, field = name.rpartition(".")
    if dot:
        if owner not in TASKS:
            raise SettingsError(name, f"name a task of {', '.join(TASKS)}")
        if field not in _fields(owner):
            own = ", ".join(_fields(owner)).replace("_", "-")
            raise SettingsError(name, f"be a setting of task {owner}: {own}")
        return owner, field
    if field in _fields(""):
        return "", field
    owners = [owner for owner, kind in TASKS.items() if settings.has(kind) and field in _fields(owner)]
    if len(owners) == 1:
        return owners[0], field
    if owners:
        which = [f"{owner}.{field}" for owner in owners]
        raise SettingsError(name, "name one task", fix="Use", give=dict.fromkeys(which, ...))
    run = f"algorithm {settings.algorithm}" if settings.algorithm else "the run"
    own = ", ".join(names(settings)).replace("_", "-")
    raise SettingsError(name, f"be a setting of {run}: {own}")


def value_of(settings: Settings, name: str) -> Any:
    """Returns the value of a setting: the name of a rule or schedule; the default of a field that it does not have."""
    owner, field = resolve(settings, name)
    own = getattr(settings, owner) if owner else settings
    if part := _part(owner, field):
        return getattr(getattr(own, part.whole), part.field, part.default)
    value, kinds = getattr(own, field), _KINDS.get((owner, field))
    return next(name for name, kind in kinds.items() if kind is type(value)) if kinds else value


def without_effect(settings: Settings, name: str) -> str:
    """Returns the reason why a setting changes nothing beside the others, and "" for others."""
    owner, field = resolve(settings, name)
    part, own = _part(owner, field), getattr(settings, owner) if owner else settings
    if part and part.name != part.whole and not hasattr(getattr(own, part.whole), part.field):
        return f"{part.whole} {written(value_of(settings, _full(owner, part.whole)))} has none"
    unused = settings.unused()
    reason = unused.get(_full(owner, field)) or unused.get(part.whole if part and not owner else "")
    return f"it would have no effect: {reason}" if reason else ""


def _whole(owner: str, whole: str, old: Any, wanted: Any, given: Mapping[str, Any]) -> Any:
    """Returns a value that has parts, of the parts that are given and those of the old value; `wanted` is the name of
    its kind, a value whose parts replace those of the old one, or None for the old kind.
    """
    parts = [p for p in PARTS if (p.owner, p.whole) == (owner, whole)]
    kinds = _KINDS[owner, whole]
    if isinstance(wanted, str):
        check_choice(_full(owner, whole), wanted, tuple(kinds))
        kind: type[Any] = kinds[wanted]
    else:
        old = old if wanted is None else wanted
        kind = type(old)
    fields = getattr(kind, "__dataclass_fields__", {})
    for part in parts:
        if part.field not in fields and given.get(part.name, part.default) != part.default:
            text = next(name for name, of in kinds.items() if of is kind)
            raise SettingsError(_full(owner, part.name), f"be left out, since {whole} {text} has none")
    values = {p.field: given.get(p.name, getattr(old, p.field, p.default)) for p in parts if p.field in fields}
    try:
        return kind(**values)
    except SettingsError as error:
        name = next(p.name for p in parts if p.field == error.setting)
        raise SettingsError(_full(owner, name), error.problem, error.got) from None


def changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Returns the settings with other values, given by name. A name with a task's name before it adds the task if the
    run lacks it. A rule or schedule may have its name as value, and keeps the parts that both have. Raises
    SettingsError if no setting has that name, or a value is out of range or would have no effect.
    """
    of: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        owner, field = resolve(settings, name)
        of.setdefault(owner, {})[field] = value
    tasks = {type(task): task for task in settings.tasks}
    for owner, values in of.items():
        own: Any = (tasks.get(TASKS[owner]) or TASKS[owner]()) if owner else settings
        for whole in dict.fromkeys(p.whole for p in PARTS if p.owner == owner):
            names = [p.name for p in PARTS if (p.owner, p.whole) == (owner, whole)]
            parts = {name: values.pop(name) for name in names if name in values}
            if parts or whole in values:
                values[whole] = _whole(owner, whole, getattr(own, whole), values.get(whole), parts)
        if owner:
            tasks[TASKS[owner]] = dataclasses.replace(own, **values)
    return dataclasses.replace(settings, tasks=tuple(tasks.values()), **of.get("", {}))


# --- texts ------------------------------------------------------------------------------------------------


def run_of(metadata: ZoMetadata) -> dict[str, str]:
    """Returns the settings of the run that a ZO model was made for, and its length, as texts by name. Raises
    ConversionError for a setting of an earlier version.
    """
    run = dict(item.split("=", 1) for item in metadata.run)
    for name, text in list(run.items()):
        if (field := name.rpartition(".")[2]) not in _REMOVED:
            continue
        if _REMOVED[field] not in (None, text):
            raise ConversionError(
                f"this ZO model was made with setting `{name}={text}`, which this version does not have; "
                "use tflm_zo 0.1, or inject the original model again"
            )
        del run[name]
    return run


def with_run(zo: Model, settings: Settings, usual: Settings, length: Mapping[str, object]) -> Model:
    """Returns a ZO model that keeps the settings of its run where they differ from those of its algorithm, and values
    of `BESIDES`; None if not given, "auto" for the learning rate to measure.
    """
    given = (f"{name}={value}" for name, value in length.items() if value is not None)
    run = (*_written_changes(settings, usual), *given)
    return with_metadata(zo, dataclasses.replace(read_metadata(zo), run=run))


def with_found(zo: Model, rate: str) -> Model:
    """Returns a ZO model with the measured learning rate of its run in place of "auto", or the model itself."""
    metadata = read_metadata(zo)
    run = tuple(f"{MEASURED_RATE}={rate}" if item == f"{MEASURED_RATE}=auto" else item for item in metadata.run)
    return zo if run == metadata.run else with_metadata(zo, dataclasses.replace(metadata, run=run))


def parse_layers(name: str, text: str) -> Last | tuple[str, ...]:
    """Reads "last:N", or names of layers separated by commas; raises SettingsError for another text."""
    kind, colon, number = text.partition(":")
    if kind == "last" and colon:
        if not number.isascii() or not number.isdigit() or int(number) < 1:
            raise SettingsError(name, "have N >= 1 in 'last:N'", text)
        return Last(int(number))
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise SettingsError(name, "be names of layers separated by commas", text)
    return found


def parse_tail(name: str, text: str) -> TailChoice:
    """Reads a number of layers, "block", "N blocks" or "all", as `Exact.last`. SettingsError: another text."""
    if text == ALL:
        return ALL
    found = re.fullmatch(r"(-?[0-9]+)|block|([0-9]+) blocks?", text)
    if found is None or found[2] == "0":
        raise SettingsError(name, "be a number of layers, 'block', 'N blocks' with N >= 1, or 'all'", text)
    return int(found[1]) if found[1] else ResidualBlocks(int(found[2] or 1))


def parse_set(settings: Settings, given: Mapping[str, str]) -> dict[str, Any]:
    """Parses settings by name, for `changed`. Raises SettingsError for an unknown name or a wrong value."""
    values: dict[str, Any] = {}
    known: dict[tuple[str, str], str] = {}
    for name, text in given.items():
        owner, field = meant = resolve(settings, name)
        if meant in known:
            raise SettingsError(name, f"be given once. It is the setting {known[meant]}")
        known[meant] = name
        values[name] = _value(owner, field, name, text)
    return values


def _value(owner: str, field: str, name: str, text: str) -> Any:
    if field == "last":
        return parse_tail(name, text)
    if (owner, field) in _KINDS:
        return text
    if field == "queries":
        return _queries(name, text)
    if field == "layers":
        return None if text == "auto" else parse_layers(name, text)
    if part := _part(owner, field):
        hint: Any = tuple[int, ...] if isinstance(part.default, tuple) else type(part.default)
    else:
        hint = typing.get_type_hints(TASKS.get(owner, Settings))[field]
    if hint is Distribution:
        return parse_distribution(text, name)
    arguments = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if type(None) in arguments and text in ("auto", "none"):
        return None
    (only,) = (a for a in arguments if a is not type(None))
    if typing.get_origin(only) is tuple:
        return _numbers(name, text, typing.get_args(only)[0])
    if only is bool:
        if text.lower() not in _SWITCHES:
            raise SettingsError(name, "be true or false", text)
        return _SWITCHES[text.lower()]
    return parse_number(name, text, only) if only in (int, float) else text


def parse_number(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    """Reads a number of a kind, int or float; raises SettingsError for another text."""
    try:
        return kind(text)
    except ValueError:
        what = "an integer" if kind is int else "a number"
        raise SettingsError(name, f"be {what}", text) from None


def _numbers(name: str, text: str, kind: Callable[[str], Any]) -> tuple[Any, ...]:
    if text == "none":
        return ()
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        what = "integers" if kind is int else "numbers"
        raise SettingsError(name, f"be {what} separated by commas, or none", text) from None


def _queries(name: str, text: str) -> int | dict[str, int] | None:
    wrong = SettingsError(name, "be a number, auto, or LAYER=NUMBER separated by commas", text)
    if text == "auto":
        return None
    queries: dict[str, int] = {}
    for part in text.split(","):
        layer, equals, number = part.strip().rpartition("=")
        if not number.isascii() or not number.isdecimal() or (equals and not layer):
            raise wrong
        if not equals:
            if "," in text:
                raise wrong
            return int(number)
        if layer in queries:
            raise SettingsError(name, f"contain `{layer}` once", text)
        queries[layer] = int(number)
    return queries


def written_settings(settings: Settings) -> dict[str, str]:
    """Returns the settings as texts for ``--set``."""
    having = [name for name in names(settings) if not without_effect(settings, name)]
    return {name.replace("_", "-"): written(value_of(settings, name), name) for name in having}


def _written_changes(settings: Settings, usual: Settings) -> tuple[str, ...]:
    """Returns the minibatch and the differences from other settings, as NAME=VALUE each, for `parse_set`."""
    found = []
    own = [("", name) for name in _fields("")]
    own += [(task, name) for task, kind in TASKS.items() if settings.has(kind) for name in _fields(task)]
    for owner, field in own:
        name = _full(owner, field)
        kept = name == "batch_size" or (owner and not usual.has(TASKS[owner]))
        if field != "sync_every" and (kept or value_of(settings, name) != value_of(usual, name)):
            found.append(f"{name.replace('_', '-')}={written(value_of(settings, name), name)}")
    return tuple(found)


def written(value: Any, name: str = "") -> str:
    """Returns a value as the command line writes it for the setting of a name."""
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Distribution):
        return _written_distribution(value)
    if isinstance(value, tuple):
        return ",".join(map(written, value)) or "none"
    if isinstance(value, Last):
        return f"last:{value.n}"
    if isinstance(value, ResidualBlocks):
        return "block" if value.n == 1 else str(value)
    if isinstance(value, Mapping):
        return ",".join(f"{layer}={number}" for layer, number in value.items())
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def parse_distribution(text: str, name: str = "perturbation") -> Distribution:
    """Reads e.g. "rademacher:2", "sparse-uniform:3:0.5" (half of the weights stay), "gaussian:0.6" or "coordinate:4"
    (one weight of each layer); raises SettingsError for another text.
    """
    kind, *numbers = text.split(":")
    family = _DISTRIBUTIONS.get(kind)
    if family is None or len(numbers) not in ((1, 2) if family is SparseUniform else (1,)):
        raise SettingsError(name, _FORMS, text)
    size, *zeros = numbers
    try:
        return family(float(size) if family is Gaussian else int(size), *map(float, zeros))
    except ValueError as error:
        raise SettingsError(name, f"have numbers in range ({error})", text) from None


def _written_distribution(z: Distribution) -> str:
    name = next(name for name, family in _DISTRIBUTIONS.items() if family is type(z))
    size = repr(z.std).removesuffix(".0") if isinstance(z, Gaussian) else str(z.mu)
    if not z.p_zero:
        return f"{name}:{size}"
    zeros = f"{z.p_zero / 256:.2g}"
    return f"{name}:{size}:{zeros if round(float(zeros) * 256) == z.p_zero else z.p_zero / 256}"
