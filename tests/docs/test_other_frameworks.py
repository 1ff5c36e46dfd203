"""The guide for PyTorch and ONNX, executed with their converters, which need environments of their own.

LITERT_TORCH_PYTHON is the Python of one with litert-torch, onnx and onnxscript, ONNX2TF_PYTHON that of one
with onnx2tf, made as the guide says. test_examples.py executes the rest of the guide.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import invoke
from helpers.pages import HOW_TO, blocks, run_command

PAGE = HOW_TO / "from-pytorch-onnx-or-float-tflite.md"
pytest.importorskip(
    "ai_edge_quantizer",
    reason="NO ai-edge-quantizer (pip install 'tflm_zo[quantizer]'): THE GUIDE FOR PYTORCH WAS NOT EXECUTED",
)


def python_of(variable: str, package: str) -> str:
    python = os.environ.get(variable)
    if not python:
        pytest.skip(
            f"{variable} IS NOT SET: NO MODEL WAS CONVERTED BY {package} (it is the Python of an environment "
            "that has it)"
        )
    return python


def done(command: list[str], **environment: str) -> None:
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert found.returncode == 0, found.stderr[-3000:]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = python_of("LITERT_TORCH_PYTHON", "litert-torch")
    folder = tmp_path_factory.mktemp("network")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(blocks(PAGE, "python")[0].text, PAGE.name, "exec"), {})
        (script,) = (block for block in blocks(PAGE, "py") if block.file == "net.py")
        Path("net.py").write_text(script.text)
        done([python, "net.py"])
    return folder


def trained(source: str) -> None:
    (lines,) = (b.commands for b in blocks(PAGE, "bash") if any(f"convert {source}" in line for line in b.commands))
    convert, train, evaluate = (line for line in lines if line.startswith("tflm-zo"))
    run_command(f"{convert} --force")
    before = _accuracy("model.tflite")
    run_command(f"{train} --force")
    run_command(evaluate)
    after = _accuracy("trained.tflite")
    assert before < 0.35 and after > 0.7, (before, after)


def _accuracy(model: str) -> float:
    found: dict[str, Any] = json.loads(invoke("evaluate", model, "test.npz", "--json").stdout)
    return float(found["accuracy"])


def test_pytorch(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(network)
    trained("torch.tflite")


def test_onnx(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = Path(python_of("ONNX2TF_PYTHON", "onnx2tf"))
    monkeypatch.chdir(network)
    (line,) = (line for b in blocks(PAGE, "bash") for line in b.commands if " onnx2tf " in f" {line} " and "-i" in line)
    words = line.split()[1:]
    done([str(python.parent / words[0]), *words[1:]], PATH=f"{python.parent}:{os.environ['PATH']}")
    trained("onnx/net_float32.tflite")
