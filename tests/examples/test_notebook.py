"""The notebook runs from top to bottom, is stored without outputs, and its statements are true."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

import tflm_zo
from helpers.pages import REPOSITORY

NOTEBOOK = REPOSITORY / "examples" / "notebook" / "first_steps.ipynb"


@pytest.fixture(scope="module")
def notebook() -> Any:
    nbformat = pytest.importorskip("nbformat", reason="NO nbformat: THE NOTEBOOK WAS NOT RUN")
    return nbformat.read(NOTEBOOK, as_version=4)


def test_it_has_no_outputs(notebook: Any) -> None:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) >= 5
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


@pytest.mark.slow
def test_it_runs_from_top_to_bottom(notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="NO nbclient: THE NOTEBOOK WAS NOT RUN")
    pytest.importorskip("keras", reason="NO TensorFlow: THE NOTEBOOK WAS NOT RUN")
    # The kernel's own files belong to this test, in any home.
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setitem(os.environ, "TF_CPP_MIN_LOG_LEVEL", "3")
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    printed = "".join(
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stdout"
    )
    before, after = map(float, re.findall(r"([\d.]+)%", printed))
    assert [accuracy(tmp_path / f"{name}.tflite") for name in ("model", "adapted")] == [before, after]
    assert before < 50 and after > 85
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")


def accuracy(path: Path) -> float:
    """Measures the model's accuracy on the rotated test digits in LiteRT itself, one by one, per cent."""
    interpreter = Interpreter(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_delegates=[tflm_zo.exact_delegate()],
    )
    interpreter.allocate_tensors()
    entry, answer = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    scale, zero_point = entry["quantization"]
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))[1400:]
    x = rotate(digits.images[..., None] / 16, 45, axes=(2, 1), reshape=False, order=1)[order]
    right = 0
    for sample, digit in zip(x.astype(np.float32), digits.target[order], strict=True):
        level = np.clip(np.rint(sample / np.float32(scale)) + zero_point, -128, 127).astype(np.int8)
        interpreter.set_tensor(entry["index"], level[None])
        interpreter.invoke()
        right += int(np.argmax(interpreter.get_tensor(answer["index"])) == digit)
    return round(100 * right / len(order), 1)
