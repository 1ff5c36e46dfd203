"""Names in messages have one form of quotation marks, that of Keras: `name`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tflm_zo.converters
from tflm_zo.cli.failures import note

PACKAGES = [Path(tflm_zo.__file__).parent, Path(tflm_zo.converters.__file__).parent]
OTHERS = "".join(map(chr, (0xAB, 0xBB, 0x2018, 0x2019, 0x201A, 0x201C, 0x201D, 0x201E, 0x2039, 0x203A)))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yields line and text of each string of a module, docstrings included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_other_marks() -> None:
    modules = [path for package in PACKAGES for path in package.rglob("*.py")]
    assert len(modules) > 200
    found = [f"{path}:{line}: {text}" for path in modules for line, text in texts(path) if set(text) & set(OTHERS)]
    assert not found


def test_long_names_are_shortened_and_examples_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    """A tensor's name that TensorFlow has put together is its layer's; a command is whole."""
    command = "`tflm-zo inject model.tflite -o model.zo.tflite --algorithm weight`"
    note(f"`model/relu/Relu;model/conv/BiasAdd;model/conv/Conv2D` is none: {command}")
    assert capsys.readouterr().err == f"`conv` is none: {command}\n"
