"""The texts of ``--set NAME=VALUE`` and of inject's options as settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, cast

from ..adaptation import Changes
from ..converters import Model, ZoMetadata, read_metadata
from ..converters.settings import InjectChanges
from ..training import ALGORITHMS, Settings, SettingsError
from ..training.algorithms import with_fitting_minibatch
from ..training.plan import plan_tasks
from ..training.setting_texts import TASKS, changed, parse_layers, parse_number, parse_set, resolve, without_effect
from .failures import note
from .option_names import OF_INJECT
from .options import optional

ALGORITHM_HELP: Final = f"{', '.join(ALGORITHMS)}; `tflm-zo algorithms` describes them"

SetOption = Annotated[
    list[str] | None,
    optional(
        "NAME=VALUE",
        "Setting of the algorithm; repeatable. `tflm-zo algorithms NAME` lists them: queries=4, "
        "schedule=cosine, exact.last=block.",
        "Algorithm",
        "--set",
    ),
]


def split_set(given: Sequence[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Splits ``--set`` options into names and texts, for a run's settings and for inject's."""
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
        if name == "update_bits":
            values[name] = parse_number("--set update-bits", text, int)
        elif name == "nodes":
            values[name] = parse_selection("nodes", split_names([text]), "auto")
        else:
            values[name] = parse_loss(text) if name == "loss" else text
    return cast(InjectChanges, values)


def run_options(
    set_options: Sequence[str] | None, given: Mapping[str, Any], loss_output: str | None = None
) -> tuple[Changes | None, InjectChanges]:
    """Returns the settings of a run, or None without any, and those of inject, from ``--set`` and options."""
    texts, injection_texts = split_set(set_options)
    own = {name: value for name, value in given.items() if value is not None}
    for option in own.keys() & texts.keys():
        raise SettingsError(f"--set {option.replace('_', '-')}", "be given once")
    injection = parse_injection(injection_texts)
    if loss_output is not None:
        injection["loss_output"] = parse_loss_output(loss_output)

    def changes(usual: Settings, metadata: ZoMetadata | None) -> Settings:
        return make_settings(usual, {**own, **parse_set(usual, texts)}, metadata)

    return changes if own or texts else None, injection


def make_settings(usual: Settings, given: Mapping[str, Any], metadata: ZoMetadata | None) -> Settings:
    """Creates the settings of a run from an algorithm's and the values that differ.

    A minibatch that is not given becomes a multiple of the model's batch, and a value that changes nothing is an
    error; while the model is not made (None), only ranges are checked.
    """
    settings = changed(usual, given)
    if metadata is None:
        return settings
    if "batch_size" not in given:
        settings = with_fitting_minibatch(settings, metadata)
    planned = {t.setting for t in plan_tasks(settings, metadata, lambda _: 1.0)}
    for name in given:
        reason, (task, _) = without_effect(settings, name), resolve(settings, name)
        # A model without trainable tensors is refused later, with the reason.
        if task and planned and TASKS[task] not in planned:
            reason = f"it would have no effect: no layer of the model is left for task {task}"
        if reason:
            raise SettingsError(name, f"be left out, since {reason}")
    return settings


def say_loss_output(zo: Model, chosen: int | str | None) -> None:
    """Says which of several outputs the loss was given to, unless one was chosen."""
    metadata = read_metadata(zo)
    names, loss = metadata.original.outputs, metadata.loss
    if loss is not None and loss.parts:
        parts = (f"{p.kind} of `{p.key}`" + (f" * {p.weight:g}" if p.weight != 1 else "") for p in loss.parts)
        note(f"the loss is a sum: {', '.join(parts)}")
    elif chosen is None and loss is not None and len(names) > 1:
        note(
            f"the loss belongs to output {loss.output} of {len(names)}, `{names[loss.output]}`; "
            "--loss-output chooses another"
        )
    if loss is not None and not (loss.squashed or loss.of_samples or not loss.has_answers):
        note(f"the loss is {loss.kind}, which no SOFTMAX or LOGISTIC of the model tells; --set loss gives another")


def parse_loss(given: str | None) -> Any:
    """Reads a loss: a kind, or parts OUTPUT=KIND*WEIGHT."""
    return given if given is None or "=" in given else given.replace("-", "_")


def parse_loss_output(given: str | None) -> int | str | None:
    """Reads ``--loss-output``: a number is one, anything else a name."""
    return int(given) if given is not None and given.isascii() and given.isdecimal() else given


def split_names(given: Sequence[str] | None) -> list[str]:
    """Returns the names of a repeatable option, which also separates them by commas."""
    return [name.strip() for item in given or () for name in item.split(",")]


def parse_selection(setting: str, names: Sequence[str] | None, *keywords: str) -> Any:
    """Reads an option that selects layers: a keyword or last:N alone, or names; None without any."""
    if not names:
        return None
    if any(name in keywords or name.startswith("last:") for name in names):
        if len(names) > 1:
            raise SettingsError(setting, f"have {', '.join(keywords)} or last:N alone", ",".join(names))
        return names[0] if names[0] in keywords else parse_layers(setting, names[0])
    if not all(names):
        raise SettingsError(setting, "be names of layers", ",".join(names))
    return tuple(names)
