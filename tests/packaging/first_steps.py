"""The first steps of a new user, by the commands of an installed wheel, from convert to firmware.

    python tests/packaging/first_steps.py

The package is the installed one; this repository gives the tests' model builder alone. `convert` runs where
TensorFlow is installed.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import tflm_zo

TESTS = Path(__file__).parents[1]
#: Classes of 8 x 8 pictures: which quarter is bright.
CLASSES = 4


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws pictures float32 [count, 8, 8, 1] and their bright quarters."""
    rng = np.random.default_rng(seed)
    y = np.arange(count, dtype=np.int32) % CLASSES
    x = rng.normal(0, 0.3, (count, 2, 4, 2, 4)).astype(np.float32)
    x[np.arange(count), y // 2, :, y % 2] += 1.0
    return x.reshape(count, 8, 8, 1), y


def tflm_zo_command(*words: str) -> str:
    """Returns the output of the command beside this interpreter."""
    program = shutil.which("tflm-zo", path=str(Path(sys.executable).parent))
    assert program is not None, f"there is no tflm-zo beside {sys.executable}"
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"tflm-zo {' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def main() -> None:
    package = Path(tflm_zo.__file__).parent
    assert TESTS.parent not in package.parents or "site-packages" in package.parts, package
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        np.savez("adapt.npz", **dict(zip("xy", pictures(120, 1), strict=True)))
        np.savez("test.npz", **dict(zip("xy", pictures(200, 2), strict=True)))
        assert "recalibrate" in tflm_zo_command("--help")
        if importlib.util.find_spec("tensorflow"):
            convert()
        else:
            print("NO TensorFlow: convert WAS NOT RUN")
        sys.path.insert(0, str(TESTS))
        from helpers.models import MODELS

        Path("model.tflite").write_bytes(MODELS["small_cnn"]())
        tflm_zo_command("inject", "model.tflite", "-o", "injected.zo.tflite")
        tflm_zo_command("train", "model.tflite", "adapt.npz", "-o", "trained.tflite", "--epochs", "60")
        before, after = (accuracy(f"{name}.tflite") for name in ("model", "trained"))
        assert after >= before + 0.3, (before, after)
        tflm_zo_command("replay", "trained.zo.tflite", "trained.zolog", "-o", "again.tflite")
        assert Path("again.tflite").read_bytes() == Path("trained.tflite").read_bytes()
        tflm_zo_command("report", "trained.zolog", "-o", "report.html")
        tflm_zo_command("plan", "model.tflite", "--board", "pico")
        tflm_zo_command("firmware", "trained.zo.tflite", "-o", "firmware", "--data", "adapt.npz")
        assert Path("firmware/README.md").is_file()
    print(f"accuracy {before:.1%} before, {after:.1%} after; tflm_zo is {package}")


def convert() -> None:
    """Converts a Keras model to int8. Returns also its answers."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras

    network = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(CLASSES)])
    network.save("model.keras")
    tflm_zo_command("convert", "model.keras", "adapt.npz", "-o", "converted.tflite")
    print(f"converted: accuracy {accuracy('converted.tflite'):.1%}")


def accuracy(model: str) -> float:
    return float(json.loads(tflm_zo_command("evaluate", model, "test.npz", "--json"))["accuracy"])


if __name__ == "__main__":
    main()
