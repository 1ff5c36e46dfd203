"""Samples in every usual form become a model's inputs: the same arrays and the same errors.

The expected arrays are computed here, from the levels that the data were made of.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.commands import result_of, run
from helpers.injection import inject_all
from helpers.inputs import BUILT, Example, model, pixel_model
from helpers.models import MODELS
from tflm_zo.data import Data, DataError, DataWarning, Inputs, labelled, prepare, prepare_samples
from tflm_zo.firmware import generate_firmware
from tflm_zo.training import Settings, Trainer, Weights


def value_forms(array: Any, details: Any) -> dict[str, Any]:
    _, dtype, scale, zero_point = details
    if dtype.kind == "f":
        return {"own": array, "float64": array.astype(np.float64), "big-endian": array.astype(">f4")}
    real = (array.astype(np.float64) - zero_point) * scale
    forms = {"own": array, "float64": real, "float32": real.astype(np.float32), "big-endian": real.astype(">f8")}
    if dtype == np.int8 and scale == np.float32(1 / 255):
        forms["pixels"] = (array.astype(int) + 128).astype(np.uint8)
    return forms


def shape_forms(array: Any) -> dict[str, Any]:
    squeezed = array.reshape([n for i, n in enumerate(array.shape) if i == 0 or n != 1])
    return {
        "as it is": array,
        "fewer ones": squeezed,
        "more ones": squeezed[:, None, ..., None],
        "column by column": np.asfortranarray(array),
        "every other": np.repeat(array, 2, 0)[::2],
        "list of arrays": list(array),
        "tuple of arrays": tuple(squeezed),
        **({"nested list": array.tolist()} if array.dtype.kind == "f" else {}),
    }


def label_forms(labels: Any, loss: Any, details: Any) -> dict[str, Any]:
    if loss.kind == "mse":
        return value_forms(labels, details)
    forms = {"own": labels, "int64": labels.astype(np.int64), "uint8": labels.astype(np.uint8)}
    forms |= {"list": labels.tolist(), "NumPy integers": list(labels), "column": labels[..., None]}
    if loss.of_classes:
        one_hot = labels[:, None] == np.arange(loss.elements)
        forms |= {"one-hot": one_hot.astype(np.float32), "one-hot bool": one_hot}
        forms |= {"one-hot list": one_hot.astype(int).tolist()}
    else:
        forms["bool"] = labels.astype(bool)
    return forms


def ways(folder: Path, names: list[str], inputs: list[Any], y: Any) -> dict[str, tuple[Any, ...]]:
    keyed = dict(zip(names, inputs, strict=True))
    numbered = {"x": inputs[0]} if len(names) == 1 else {f"x{i}": x for i, x in enumerate(inputs)}
    found: dict[str, tuple[Any, ...]] = {
        "list of inputs": (list(inputs), y),
        "tuple of inputs": (tuple(inputs), y),
        "dictionary": (keyed, y),
        "dictionary backwards": (dict(reversed(keyed.items())), y),
        "dictionary with labels": ({"other": None, **numbered, "y": y},),
    }
    if len(names) == 1:
        found["array"] = inputs[0], y
    for way, arrays in (("file", keyed), ("numbered file", numbered)):
        np.savez(folder / f"{way}.npz", other=np.array([None]), y=y, **arrays)
        found[way] = (folder / f"{way}.npz",)
        found[f"{way}, labels apart"] = str(folder / f"{way}.npz"), y
        found[f"{way}, its labels by themselves"] = list(inputs), folder / f"{way}.npz"
    if len(names) == 1:
        np.save(folder / "x.npy", inputs[0])
        np.save(folder / "y.npy", y)
        found["array in a file"] = folder / "x.npy", y
        found["both in files of their own"] = str(folder / "x.npy"), str(folder / "y.npy")
    return found


@pytest.mark.filterwarnings("ignore::tflm_zo.data.DataWarning")
@given(st.data(), st.sampled_from(sorted(BUILT)), st.integers(0, 2**32 - 1))
def test_every_form_gives_the_same_arrays(tmp_path_factory: Any, draw: Any, name: str, seed: int) -> None:
    example, zo = Example.of(name, seed), model(name)
    names = list(zo.metadata.original.inputs)
    inputs = []
    for i, array in enumerate(example.inputs):
        forms = value_forms(array, zo.input_details(i))
        forms = shape_forms(forms[draw.draw(st.sampled_from(sorted(forms)))])
        inputs.append(forms[draw.draw(st.sampled_from(sorted(forms)))])
    labels = label_forms(example.labels, zo.metadata.loss, zo.label_details())
    y = labels[draw.draw(st.sampled_from(sorted(labels)))]
    folder = tmp_path_factory.getbasetemp()
    for arguments in ways(folder, names, inputs, y).values():
        found = prepare(zo, *arguments)
        example.check(found)
        alone = prepare_samples(zo, arguments[0])
        assert all(np.array_equal(a, b) for a, b in zip(alone, found.inputs, strict=True))
        assert prepare(zo, found) is found


def loss_of(arrays: dict[str, Any], folder: Path, *command: str) -> Any:
    np.savez(folder / "d.npz", **arrays)
    return result_of(*command, folder / "d.npz")["loss"]


@pytest.mark.parametrize("name", BUILT)
def test_the_command_line_is_the_trainer(name: str, tmp_path: Path) -> None:
    zo = inject_all(BUILT[name](), batch=2)
    zo.save(tmp_path / "m.zo.tflite")
    example, details = Example.of(name, 3), model(name)
    inputs = [value_forms(x, details.input_details(i)).get("float32", x) for i, x in enumerate(example.inputs)]
    forms = label_forms(example.labels, details.metadata.loss, details.label_details())
    names = details.metadata.original.inputs
    file = dict(zip(names, inputs, strict=True)) | {"y": forms.get("one-hot", forms["own"])}
    trainer = Trainer(zo, Settings(tasks=(Weights(),), batch_size=4), "litert")
    measured = trainer.evaluate(example.inputs, example.labels)["loss"]
    runtime = ["--runtime", "litert"]
    assert loss_of(file, tmp_path, "evaluate", *runtime, str(tmp_path / "m.zo.tflite")) == measured
    command = ["--batch-size", "4", "--steps", "3", "--algorithm", "weight", "--keep", "last"]
    output = ["-o", str(tmp_path / "t.tflite")]
    trained = loss_of(file, tmp_path, "train", *runtime, *command, *output, str(tmp_path / "m.zo.tflite"))
    trainer.fit(inputs, forms["own"], steps=3, keep="last", validation_data=(inputs, forms["own"]))
    assert trainer.evaluate(inputs, forms["own"])["loss"] == trained
    assert trainer.export().to_bytes() == (tmp_path / "t.tflite").read_bytes()


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize("form", ["own", "float32", "pixels"])
def test_firmware_has_the_same_samples(form: str, tmp_path: Path) -> None:
    zo = inject_all(pixel_model())
    zo.save(tmp_path / "m.zo.tflite")
    example = Example.of("pixels", 1)
    x = value_forms(example.inputs[0], model("pixels").input_details())[form]
    np.savez(tmp_path / "d.npz", x=x, y=example.labels)
    given = ("--data", tmp_path / "d.npz", "--steps", 2, "--samples", 7)
    run("firmware", tmp_path / "m.zo.tflite", *given, "-o", tmp_path / "f")
    (path,) = (tmp_path / "f").rglob("*_samples.cc")
    made = generate_firmware(zo, steps=2, samples=7, data={"x": x[:7], "y": example.labels[:7]})
    (text,) = (content for name, content in made.files.items() if name.endswith("_samples.cc"))
    for source in (path.read_text(), text):
        arrays = re.findall(r"const int\w+ k(\w+)\[kCount\]\[\d+\] = \{([^;]*)\};", source)
        found = {name: np.array(re.findall(r"-?\d+", values), int) for name, values in arrays}
        np.testing.assert_array_equal(found["Input0"], example.inputs[0][:7].reshape(-1))
        np.testing.assert_array_equal(found["Labels"], example.labels[:7])


def test_targets() -> None:
    """Uses an autoencoder's samples as targets; given ones are quantized with the scale of the output."""
    zo, (x,) = model("targets"), Example.of("targets", 2).inputs
    _, _, scale, zero_point = zo.input_details()
    _, _, target_scale, target_zero = zo.label_details()
    assert (scale, zero_point) != (target_scale, target_zero)  # or there is nothing to test
    real = (x.astype(np.float64) - zero_point) * scale
    expected = np.clip(np.rint(real / target_scale) + target_zero, -128, 127).astype(np.int8)
    for arguments in ((x,), (real,), (x, real), ({"x": x},), (x, expected), (real, real[:, :, None])):
        np.testing.assert_array_equal(prepare(zo, *arguments).labels, expected)
    flat = Inputs(inject_all(MODELS["small_cnn"](), loss="mse"))
    images = np.zeros((3, 8, 8, 1), np.int8)
    with pytest.raises(DataError, match=r"y: no targets, and x of shape \[3, 8, 8, 1\] cannot be the target"):
        prepare(flat, images)
    assert prepare(flat, images, np.zeros((3, 4))).labels.shape == (3, 4)


def test_which_samples_have_a_label() -> None:
    y = np.array([[-1, -1, -1], [-1, 0, -1], [1, 1, 0]])
    binary = np.random.default_rng(1).integers(-128, 128, (3, 6, 6, 2)).astype(np.int8)
    assert labelled(prepare(model("binary"), binary, y).labels, "binary_cross_entropy").tolist() == [0, 1, 1]
    assert labelled(np.array([2, -1]), "cross_entropy").tolist() == [True, False]
    assert labelled(np.full((2, 4), -1, np.int8), "mse").all()


def test_parts_and_sums() -> None:
    rng = np.random.default_rng(0)
    data = Data([rng.integers(0, 9, (6, 2)), rng.integers(0, 9, (6, 3))], np.arange(6))
    again = data.take(slice(2)) + data.take(np.array([2, 3])) + data.take(np.arange(6) > 3)
    assert len(again) == 6 and again.labels.tolist() == list(range(6))
    assert all(np.array_equal(a, b) for a, b in zip(again.inputs, data.inputs, strict=True))


def test_implausible_ranges_are_warned_about_once() -> None:
    x, y = np.full((4, 8, 8, 1), 100.0), np.arange(4)
    trainer = Trainer(inject_all(BUILT["classes"](), batch=4), Settings(tasks=(Weights(),), batch_size=4))
    with pytest.warns(DataWarning, match="x goes from 100 to 100, .*: 100% of the values are clipped") as told:
        found = prepare(trainer.runtime, x, y)
        trainer.fit(found, steps=1, validation_data=found)
    assert len([w for w in told if w.category is DataWarning]) == 1
    with pytest.warns(DataWarning, match="are clipped"):
        trainer.predict(x)
