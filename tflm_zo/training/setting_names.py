# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Settings by name, those of tasks included: ``queries``, ``weights.rule``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from .checks import SettingsError, check_choice
from .schedules import SCHEDULES, Schedule, Step
from .settings import Settings
from .tasks import Exact, Nodes, Task, Weights

__all__ = ["changed", "every_name", "full_name", "names", "resolve", "value_of"]

TASKS: Final[Mapping[str, type[Task]]] = {"nodes": Nodes, "exact": Exact, "weights": Weights}
_NOT_NAMED: Final = ("tasks", "algorithm")
#: Fields of a schedule, which are settings of the run on the command line and in stored settings.
PARTS: Final[Mapping[str, str]] = {
    "final_learning_rate": "final",
    "warmup_steps": "warmup",
    "decay": "decay",
    "decay_steps": "every",
}


def _fields(kind: type[Task] | type[Settings]) -> list[str]:
    names = [f.name for f in dataclasses.fields(kind) if f.name not in _NOT_NAMED]
    if kind is Settings:
        at = names.index("schedule")
        final, *others = PARTS
        names[at : at + 1] = [final, "schedule", *others]
    return names


def every_name() -> list[str]:
    """Returns all names that a setting of any run may have."""
    of_tasks = [(owner, name) for owner, kind in TASKS.items() for name in _fields(kind)]
    return [*_fields(Settings), *(n for _, n in of_tasks), *(f"{owner}.{n}" for owner, n in of_tasks)]


def names(settings: Settings) -> list[str]:
    """Returns all names of a run's settings, the run's own first; a name that two tasks share has the task's
    name before it.
    """
    own = _fields(Settings)
    of_tasks = [
        (owner, name) for owner, kind in TASKS.items() if settings.has(kind) for name in _fields(kind)
    ]
    bare = [name for _, name in of_tasks]
    return own + [
        f"{owner}.{name}" if name in own or bare.count(name) > 1 else name for owner, name in of_tasks
    ]


def resolve(settings: Settings, name: str) -> tuple[str, str]:
    """Returns the task ("" for the run) and the field that a name stands for.

    Args:
        settings: settings of the run.
        name: name of the setting, with a task's name and a dot before it where two settings share a name.

    Raises:
        SettingsError: no setting has that name, or several have; the message lists them.
    """
    owner, dot, field = name.rpartition(".")
    if dot:
        if owner not in TASKS:
            raise SettingsError(name, f"name a task of {', '.join(TASKS)}")
        if field not in _fields(TASKS[owner]):
            own = _written(", ".join(_fields(TASKS[owner])))
            raise SettingsError(name, f"be a setting of task {owner}: {own}")
        return owner, field
    if field in _fields(Settings):
        return "", field
    owners = [o for o, kind in TASKS.items() if settings.has(kind) and field in _fields(kind)]
    if len(owners) == 1:
        return owners[0], field
    which = [f"{o}.{field}" for o in owners]
    if owners:
        raise SettingsError(name, "name one task", fix="Use", give=dict.fromkeys(which, ...))
    run = f"algorithm {settings.algorithm}" if settings.algorithm else "the run"
    own = _written(", ".join(names(settings)))
    raise SettingsError(name, f"be a setting of {run}: {own}")


def _written(name: str) -> str:
    return name.replace("_", "-")


def full_name(settings: Settings, name: str) -> str:
    """Returns the name of a setting with its task before it, as `Settings.without_effect` has it."""
    owner, field = resolve(settings, name)
    if not owner and field in PARTS:
        return "schedule"
    return f"{owner}.{field}" if owner else field


def value_of(settings: Settings, name: str) -> Any:
    """Returns the value of a setting: of a schedule its name, of a field that it lacks the default."""
    owner, field = resolve(settings, name)
    if not owner and field == "schedule":
        return next(name for name, kind in SCHEDULES.items() if kind is type(settings.schedule))
    if not owner and field in PARTS:
        return getattr(settings.schedule, PARTS[field], getattr(Step(), PARTS[field]))
    return getattr(getattr(settings, owner) if owner else settings, field)


def has_part(schedule: Schedule, name: str) -> bool:
    """Returns whether a schedule has the setting of a name, unless that is of no schedule."""
    return name not in PARTS or hasattr(schedule, PARTS[name])


def _schedule(usual: Schedule, given: Mapping[str, Any]) -> Schedule:
    """Returns the schedule of a name, whose fields are given or those of the usual one."""
    wanted = given.get("schedule", usual)
    if isinstance(wanted, str):
        check_choice("schedule", wanted, tuple(SCHEDULES))
    kind = SCHEDULES[wanted] if isinstance(wanted, str) else type(wanted)
    values = {}
    for field in dataclasses.fields(kind):
        (name,) = (name for name, part in PARTS.items() if part == field.name)
        old = wanted if not isinstance(wanted, str) else usual
        values[field.name] = given.get(name, getattr(old, field.name, field.default))
    if left := [name for name in PARTS if name in given and PARTS[name] not in values]:
        raise SettingsError(left[0], "be left out, since the schedule has none", given[left[0]])
    try:
        return kind(**values)
    except SettingsError as error:
        (name,) = (name for name, part in PARTS.items() if part == error.setting)
        raise SettingsError(name, error.problem, error.got) from None


def changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Returns the settings with other values.

    Args:
        settings: settings of a run.
        changes: values by name; a name with a task's name before it adds the task if the run lacks it.

    Raises:
        SettingsError: no setting has that name, or a value is out of range or would have no effect.
    """
    of: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        owner, field = resolve(settings, name)
        of.setdefault(owner, {})[field] = value
    of[""] = own = of.get("", {})
    if "schedule" in own or own.keys() & PARTS:
        own["schedule"] = _schedule(settings.schedule, own)
    tasks = {type(task): task for task in settings.tasks}
    for owner, values in of.items():
        if owner:
            kind = TASKS[owner]
            tasks[kind] = dataclasses.replace(tasks.get(kind) or kind(), **values)
    return dataclasses.replace(
        settings,
        tasks=tuple(tasks.values()),
        **{name: value for name, value in own.items() if name not in PARTS},
    )
