"""The wheel of `make wheel` in an environment of its own, where there is no compiler."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import tflm_zo
from helpers.pages import REPOSITORY

FIRST_STEPS = Path(__file__).with_name("first_steps.py")


def run(words: Sequence[object], environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow  # needs the network, for the build requirements
def test_a_checkout_without_links_is_built(tmp_path: Path) -> None:
    """Git on Windows writes a text file in the place of a link. The library is left out here."""
    checkout = tmp_path / "checkout"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        checkout.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, checkout)
    for folder in ("converters", "tflm_zo"):
        shutil.copytree(REPOSITORY / folder, checkout / folder, symlinks=True)
    link = checkout / "tflm_zo" / "converters"
    target = os.readlink(link)
    link.unlink()
    link.write_text(target, encoding="utf-8")
    run([sys.executable, "-m", "build", "-C", "wheel.cmake=false", "--outdir", tmp_path, checkout])
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        built = {name for name in archive.namelist() if name.startswith("tflm_zo/") and name.endswith(".py")}
    folders = (REPOSITORY / "converters", REPOSITORY / "tflm_zo")
    assert built == {
        str(Path("tflm_zo", *(() if folder.name == "tflm_zo" else (folder.name,)), path.relative_to(folder)))
        for folder in folders
        for path in folder.rglob("*.py")
    }


@pytest.mark.slow  # builds the library, and installs TensorFlow: needs the network
def test_a_wheel_works_without_a_compiler(tmp_path: Path) -> None:
    environment = Path(sys.prefix)
    # The environment that runs this test stays: it is not installed anew after any change.
    made = ["make", "-o", environment / ".installed", "wheel", f"VENV={environment}", f"DIST={tmp_path}"]
    run(made)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"tflm_zo-{tflm_zo.__version__}-py3-none-")
    assert not wheel.name.endswith("-linux_x86_64.whl")  # no package index takes that
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if "/_native/" in name and not name.endswith("/")]
        assert len(libraries) == 1
    venv.create(tmp_path / "bare", with_pip=True)
    programs = tmp_path / "bare" / "bin"
    bare = {"PATH": str(programs), "HOME": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    assert not any(shutil.which(name, path=bare["PATH"]) for name in ("cc", "gcc", "clang", "cmake"))
    pip = bare | {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    run([programs / "pip", "install", "--quiet", "--only-binary", ":all:", f"{wheel}[keras,report]"], pip)
    said = run([programs / "python", FIRST_STEPS], bare)
    assert "after; tflm_zo is " + str(tmp_path / "bare") in said
