"""Errors name their settings in fields, and the command line writes these as its options."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from tflm_zo.cli.commands.firmware import firmware
from tflm_zo.cli.commands.inject import inject
from tflm_zo.cli.commands.train import train
from tflm_zo.cli.option_names import in_option_syntax, options_of
from tflm_zo.converters import ConversionError, InjectSettings
from tflm_zo.converters.errors import InjectError
from tflm_zo.io.errors import ExistsError, SettingsError

COMMANDS = {"train": train, "inject": inject, "firmware": firmware}


@pytest.mark.parametrize(
    ("command", "name", "value", "of_inject", "option"),
    [
        ("train", "batch_size", ..., False, "--batch-size"),
        ("train", "loss", "mse", False, "--set loss=mse"),
        ("train", "momentum_terms", 8, False, "--set momentum-terms=8"),
        ("train", "masked", False, False, "--set masked=false"),
        ("train", "force", True, False, "--force"),
        ("train", "replace", True, False, "--force"),
        ("train", "resume", True, False, "--resume"),
        ("train", "nodes.queries", ..., False, "--set nodes.queries"),
        ("train", "weights.stage_p_zero", ..., False, "--set weights.stage-p-zero"),
        ("train", "headroom", ..., False, "--set headroom"),
        ("train", "headroom", 2, True, "--headroom 2"),
        ("train", "update_bits", 8, True, "--update-bits 8"),
        ("train", "replay", False, True, "--no-replay"),
        ("train", "blocks", ..., False, "--choose-block"),
        ("inject", "blocks", ..., False, "--block"),
        ("inject", "cuts", ..., False, "--cut"),
        ("inject", "loss", "mse", False, "--loss mse"),
        ("firmware", "batch_size", ..., False, "--set batch-size"),
        ("firmware", "schedule", "step", False, "--set schedule=step"),
        ("firmware", "force", True, False, "--force"),
        ("firmware", "--ram", ..., False, "--ram"),
        ("train", "model", ..., False, "model"),
    ],
)
def test_options(command: str, name: str, value: Any, of_inject: bool, option: str) -> None:
    shown = in_option_syntax(options_of(COMMANDS[command]), options_of(inject))
    assert shown(name, value, of_inject) == f"`{option}`"


ERROR = SettingsError("weights.queries", "be at most 4", 8, "Inject with", inject={"max_queries": 8})


def test_one_error_in_two_languages() -> None:
    assert str(ERROR) == "`weights.queries` must be at most 4. Received: 8. Inject with `max_queries=8`."
    assert ERROR.told(in_option_syntax(options_of(train), options_of(inject))) == (
        "`--set weights.queries` must be at most 4. Received: 8. Inject with `--max-queries 8`."
    )
    # A value that looks like a setting, and a layer that is called like one, stay as they are.
    error = SettingsError("layers", "name one of `batch_size`", "max_queries=8")
    assert error.told(in_option_syntax(options_of(train), {})) == (
        "`--set layers` must name one of `batch_size`. Received: 'max_queries=8'."
    )


def test_parts_that_are_left_out() -> None:
    assert str(SettingsError("steps", "be at least 1")) == "`steps` must be at least 1."
    assert str(SettingsError("x", "be 1", None)) == "`x` must be 1. Received: None."
    assert str(SettingsError("x", "be 1", fix="Remove it")) == "`x` must be 1. Remove it."
    both = SettingsError("x", "be 1", give={"y": ..., "z": "a"})
    assert str(both) == "`x` must be 1. `y` or `z='a'`."
    assert str(ExistsError(Path("a.log"), switches=("resume", "replace"))) == (
        "a.log exists. Choose another name, or use `resume=True` or `replace=True`."
    )


@pytest.mark.parametrize("error", [ERROR, InjectError("loss", "be int8", give={"loss": "mse"})])
def test_errors_of_workers_keep_their_fields(error: SettingsError) -> None:
    """Sends a worker's error through pickle."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


def test_errors_of_inject_are_of_both_kinds() -> None:
    with pytest.raises(ConversionError) as refused:
        InjectSettings(headroom=113)
    assert isinstance(refused.value, SettingsError) and isinstance(refused.value, ValueError)
    assert (refused.value.setting, refused.value.got) == ("headroom", 113)
