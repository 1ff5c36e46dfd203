"""Models that Arm's vela has compiled for an Ethos-U, and ZO models that it is given."""

import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.commands import invoke
from helpers.models import MODELS
from tflm_zo import load_model
from tflm_zo.converters import Model
from tflm_zo.converters.model import OperatorCode

needs_vela = pytest.mark.skipif(
    shutil.which("vela") is None, reason="NO vela (pip install ethos-u-vela): NO MODEL WAS COMPILED BY IT"
)
REFUSED = "take the int8 model that vela was given"


def command(*words: object) -> tuple[int, str]:
    done = invoke(*words)
    return done.exit_code, " ".join(done.output.split())


def compiled(model: Path, folder: Path) -> Path:
    words = ["vela", "--accelerator-config", "ethos-u55-128", "--output-dir", str(folder), str(model)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / f"{model.stem}_vela.tflite"


def as_vela_writes_it(model: Model) -> Model:
    (graph,) = model.subgraphs
    last = graph.operators[-1]
    last.code, last.inputs = OperatorCode.of_custom("ethos-u"), list(graph.inputs)
    graph.operators[:] = [last]
    return model


def check_refused(path: Path, folder: Path) -> None:
    status, said = command("inject", path, "-o", folder / "zo.tflite")
    assert status == 1 and "ethos-u" in said and REFUSED in said
    assert "or cut the file behind" not in said  # nothing is left to train
    assert not (folder / "zo.tflite").exists()
    status, said = command("inspect", path)
    assert status == 0 and "vela has compiled this model for an Ethos-U" in said


def test_what_looks_like_velas_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "small_vela.tflite"
    path.write_bytes(as_vela_writes_it(load_model(MODELS["small_cnn"]())).to_bytes())
    check_refused(path, tmp_path)
    status, said = command("inspect", "--json", path)
    assert status == 0 and '"ethos-u"' in said


@needs_vela
def test_what_vela_makes_of_a_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(MODELS["small_cnn"]())
    check_refused(compiled(path, tmp_path), tmp_path)


@needs_vela
def test_what_vela_makes_of_a_zo_model_is_refused(tmp_path: Path) -> None:
    """Vela hands a trained filter to the NPU as an input, and moves the weight operators."""
    path = tmp_path / "small.tflite"
    path.write_bytes(MODELS["small_cnn"]())
    zo = tmp_path / "small.zo.tflite"
    status, said = command("inject", path, "-o", zo, "--trainable", "fc", "--algorithm", "weight")
    assert status == 0, said
    made = compiled(zo, tmp_path)
    operators = {op.code.name: op for op in load_model(made).subgraphs[0].operators}
    assert {"ethos-u", "TFLM_ZO_PERTURB", "TFLM_ZO_LOSS"} <= set(operators)
    assert "fc/filter" in [tensor.name for tensor in operators["ethos-u"].inputs if tensor is not None]
    status, said = command("firmware", made, "-o", tmp_path / "firmware")
    assert status == 1 and REFUSED in said
    assert not (tmp_path / "firmware").exists()
