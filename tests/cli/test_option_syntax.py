# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Refusals of the package, said by the command line in its own syntax."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tflm_zo.cli import failures
from tflm_zo.cli.commands.firmware import firmware
from tflm_zo.cli.commands.inject import inject
from tflm_zo.cli.commands.train import train
from tflm_zo.cli.option_names import in_option_syntax, options_of
from tflm_zo.converters import InjectSettings
from tflm_zo.training import Exact, Nodes, Settings, Weights

ROOT = Path(__file__).parents[2]
SETTINGS = {f.name for c in (Settings, Nodes, Exact, Weights, InjectSettings) for f in dataclasses.fields(c)}
COMMANDS = {"train": train, "inject": inject, "firmware": firmware}


def translated(message: str, command: str = "train") -> str:
    return in_option_syntax(message, options_of(COMMANDS[command]), failures._all_options)


@pytest.mark.parametrize(
    ("command", "message", "expected"),
    [
        ("train", "batch_size: expected at most 3", "--batch-size: expected at most 3"),
        ("train", "steps, budget: give one of them", "--steps, --budget: give one of them"),
        ("train", "loss=`mse` needs int8", "--set loss=mse needs int8"),
        ("train", 'inject it with trainable="all"', "inject it with --trainable all"),
        (
            "train",
            "got 4, times momentum_terms=8; max_queries=32",
            "got 4, times --set momentum-terms=8; --max-queries 32",
        ),
        ("train", "masked=False, sharpness=True", "--set masked=False, --set sharpness=True"),
        ("train", "replay=False, force=True", "--no-replay, --force"),
        ("train", "rule, clip: give one of them", "--set rule, --set clip: give one of them"),
        ("train", "nodes.queries: expected 1..32", "--set nodes.queries: expected 1..32"),
        ("train", "weights.stage_p_zero: expected 0..1", "--set weights.stage-p-zero: expected 0..1"),
        ("train", "exact.bits would have no effect: it", "--set exact.bits would have no effect: it"),
        ("train", "batch_size would have no effect: it", "--batch-size would have no effect: it"),
        (
            "train",
            "set stage_p_zero or weights.learning_rate",
            "set --set stage-p-zero or --set weights.learning-rate",
        ),
        ("train", "it needs update_bits 16", "it needs --set update-bits 16"),
        ("train", "inject with update_bits=8", "inject with --update-bits 8"),
        ("train", "a rule of bits: inject with headroom=2", "a rule of bits: inject with --headroom 2"),
        ("train", "blocks: expected 1..3", "--choose-block: expected 1..3"),
        ("inject", "blocks: a is in two", "--block: a is in two"),
        ("inject", "cuts: no a", "--cut: no a"),
        # What only looks like a setting.
        ("train", "batch_size.npz: no such file", "batch_size.npz: no such file"),
        ("train", "data/headroom/d.npz: y: bad", "data/headroom/d.npz: y: bad"),
        ("train", "layer `batch_size` has no nodes", "layer `batch_size` has no nodes"),
        ("train", "x: expected 3 samples", "x: expected 3 samples"),
        ("train", "weights.npz: expected an archive", "weights.npz: expected an archive"),
        ("train", "expected NAME=VALUE, got 'seed='", "expected NAME=VALUE, got 'seed='"),
        ("train", "there is no batch-size.x: it", "there is no batch-size.x: it"),
        ("train", "rates: expected", "rates: expected"),
        ("inject", "steps: 3", "steps: 3"),
        ("firmware", "batch_size: expected 4", "--set batch-size: expected 4"),
        ("firmware", 'leave schedule="step"', "leave --set schedule=step"),
        ("firmware", "inject with update_bits=8", "inject with --update-bits 8"),
        ("firmware", "weights.rule: bits moves", "--set weights.rule: bits moves"),
        ("firmware", "inject with headroom=2", "inject with --headroom 2"),
    ],
)
def test_translated(command: str, message: str, expected: str) -> None:
    assert translated(message, command) == expected


def _text(node: ast.expr) -> str | None:
    """A string of the source, with 7 for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "7" for v in node.values)
    return None


def _refusals() -> Iterator[tuple[str, str]]:
    """Texts of all exceptions that the package raises with one, by file."""
    for path in sorted([*(ROOT / "tflm_zo").rglob("*.py"), *(ROOT / "converters").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                for argument in node.exc.args:
                    text = _text(argument)
                    if text is not None:
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_no_refusal_speaks_python() -> None:
    """However a setting is written in the source, people read the option."""
    found, wrong = 0, []
    for where, text in _refusals():
        found += 1
        said = re.sub(r"--set [\w.-]+=", "", translated(text))
        python = re.search(r"\b[A-Z]\w+Settings\b", said) or next(
            (
                m
                for m in re.finditer(r"(?<![\w`-])([a-z]\w*)=|(?<![\w./`'\"-])([a-z]+(?:_[a-z]+)+)\b", said)
                if (m[1] or m[2]) in SETTINGS
            ),
            None,
        )
        if python:
            wrong.append(f"{where}: {said}")
    assert found > 200
    assert not wrong, "\n".join(wrong)
