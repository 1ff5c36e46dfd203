"""``--set NAME=VALUE``: settings of a run, and how they are written, for every command that has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, cast

import typer

from ..adaptation import Changes
from ..converters import ZoMetadata
from ..converters.settings import InjectChanges
from ..training import ALGORITHMS, Settings, SettingsError
from ..training.algorithms import fitting_batch_size
from ..training.plan import plan_tasks
from ..training.setting_texts import TASKS, changed, parse_number, parse_set, resolve, without_effect
from .injection import parse_loss_output, parse_selection, parse_sparse, split_names
from .option_names import OF_INJECT

ALGORITHM_HELP: Final = f"{', '.join(ALGORITHMS)}; `tflm-zo algorithms` describes them"

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Setting of the algorithm; repeatable. `tflm-zo algorithms NAME` lists them: queries=4, "
        "schedule=cosine, exact.last=block.",
        show_default=False,
        rich_help_panel="Algorithm",
    ),
]


def split_set(given: Sequence[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Splits ``--set`` options into names and texts, for a run's settings and for inject's.

    Raises:
        SettingsError: a text is not NAME=VALUE, or a name is given twice.
    """
    run: dict[str, str] = {}
    injection: dict[str, str] = {}
    for item in given or ():
        name, equals, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or not text:
            raise SettingsError("--set", "be NAME=VALUE", item)
        into = injection if name in OF_INJECT else run
        if name in into:
            raise SettingsError(f"--set {name.replace('_', '-')}", "be given once")
        into[name] = text.strip()
    return run, injection


def parse_injection(given: Mapping[str, str]) -> InjectChanges:
    """Parses inject's settings, from `split_set`."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name in ("update_bits", "sparse_seed"):
            values[name] = parse_number(f"--set {name.replace('_', '-')}", text, int)
        elif name == "nodes":
            values[name] = parse_selection("nodes", split_names([text]), "auto")
        else:
            values[name] = text.replace("-", "_") if name == "loss" else text
    seed = values.pop("sparse_seed", 0)
    if seed or "sparse" in values:
        values["sparse"] = parse_sparse(values.get("sparse"), seed)
    return cast(InjectChanges, values)


def run_options(
    set_options: Sequence[str] | None, given: Mapping[str, Any], loss_output: str | None = None
) -> tuple[Changes, InjectChanges]:
    """Returns the given settings of a run, and those of inject.

    Args:
        set_options: texts of ``--set``, NAME=VALUE each.
        given: values of settings that have options of their own; None where one is not given.
        loss_output: value of ``--loss-output``, or None.

    Raises:
        SettingsError: a setting is given twice.
    """
    texts, injection_texts = split_set(set_options)
    own = {name: value for name, value in given.items() if value is not None}
    for option in own.keys() & texts.keys():
        raise SettingsError(f"--set {option.replace('_', '-')}", "be given once")
    injection = parse_injection(injection_texts)
    if loss_output is not None:
        injection["loss_output"] = parse_loss_output(loss_output)

    def changes(usual: Settings, metadata: ZoMetadata | None) -> Settings:
        return make_settings(usual, {**own, **parse_set(usual, texts)}, metadata)

    return changes, injection


def make_settings(usual: Settings, given: Mapping[str, Any], metadata: ZoMetadata | None) -> Settings:
    """Creates the settings of a run.

    Args:
        usual: settings that the algorithm has by default.
        given: the values that differ, by name.
        metadata: metadata of the ZO model; a minibatch that is not given becomes a multiple of its batch.
            None: the model is not made yet, and only ranges are checked.

    Raises:
        SettingsError: a value is wrong, or changes nothing.
    """
    settings = changed(usual, given)
    if metadata is None:
        return settings
    if "batch_size" not in given:
        size = fitting_batch_size(settings, metadata.batch)
        settings = dataclasses.replace(settings, batch_size=size)
    planned = {t.setting for t in plan_tasks(settings, metadata, lambda _: 1.0)} if settings.is_layerwise else ()
    for name in given:
        reason, (task, _) = without_effect(settings, name), resolve(settings, name)
        # A model without trainable tensors is refused later, with the reason.
        if task and planned and TASKS[task] not in planned:
            reason = f"it would have no effect: no layer of the model is left for task {task}"
        if reason:
            raise SettingsError(name, f"be left out, since {reason}")
    return settings
