# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""What people have becomes what a model takes: the same arrays and the same words, however it comes in.

The expected arrays are computed here, from the levels that the data were made of.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo.cli.app import app
from tflm_zo.data import Data, DataError, DataWarning, labelled, prepare, prepare_samples
from tflm_zo.firmware import generate_firmware
from tflm_zo.runtime import Inputs
from tflm_zo.training import Settings, Trainer, Weights

SAMPLES = 9
RNG = np.random.default_rng(0)


def pixel_model() -> bytes:
    """An int8 input that covers 0..1, and three classes."""
    g = GraphBuilder(40)
    x = g.flatten(g.input("image", [1, 6, 6, 1], 1 / 255, -128), "flatten")
    return g.build([g.softmax(g.dense(x, "fc", 3, Activation.NONE), "softmax")])


BUILT: dict[str, Callable[[], bytes]] = {
    "classes": MODELS["small_cnn"],
    "pixels": pixel_model,
    "uint8 input": MODELS["uint8_edges"],
    "float input": MODELS["float_edges"],
    "two inputs": MODELS["two_inputs"],
    "binary": MODELS["logistic_head"],
    "targets": MODELS["autoencoder"],
}


@functools.cache
def model(name: str) -> Inputs:
    return Inputs(inject_all(BUILT[name](), batch=2))


@dataclasses.dataclass(frozen=True)
class Example:
    """Data for a model in one plain form, and what the model takes."""

    name: str
    inputs: list[Any]  # of the inputs' own types
    labels: Any

    @staticmethod
    def of(name: str, seed: int) -> Example:
        rng, zo = np.random.default_rng(seed), model(name)
        inputs = []
        for i in range(len(zo.metadata.original.inputs)):
            shape, dtype, _, _ = zo.input_details(i)
            size = (SAMPLES, *shape[1:])
            if dtype.kind == "f":
                inputs.append(rng.uniform(-1, 1, size).astype(dtype))
            else:
                bounds = np.iinfo(dtype)
                inputs.append(rng.integers(bounds.min, bounds.max + 1, size).astype(dtype))
        loss = zo.metadata.loss
        assert loss is not None
        if loss.kind == "mse":
            labels = rng.integers(-128, 128, (SAMPLES, loss.elements)).astype(np.int8)
        elif loss.of_classes:
            labels = rng.integers(0, loss.elements, SAMPLES).astype(np.int32)
        else:
            labels = rng.integers(0, 2, (SAMPLES, loss.elements)).astype(np.int32)
        return Example(name, inputs, labels)

    def check(self, found: Data) -> None:
        assert len(found) == SAMPLES and len(found.inputs) == len(self.inputs)
        for array, expected in zip((*found.inputs, found.labels), (*self.inputs, self.labels), strict=True):
            assert array.dtype == expected.dtype and array.flags.c_contiguous
            np.testing.assert_array_equal(array, expected)


def value_forms(array: Any, details: Any) -> dict[str, Any]:
    """The same samples in other types."""
    _, dtype, scale, zero_point = details
    if dtype.kind == "f":
        return {"own": array, "float64": array.astype(np.float64), "big-endian": array.astype(">f4")}
    real = (array.astype(np.float64) - zero_point) * scale
    forms = {
        "own": array,
        "float64": real,
        "float32": real.astype(np.float32),
        "big-endian": real.astype(">f8"),
    }
    if dtype == np.int8 and scale == np.float32(1 / 255):
        forms["pixels"] = (array.astype(int) + 128).astype(np.uint8)
    return forms


def shape_forms(array: Any) -> dict[str, Any]:
    """The same samples with other dimensions of size 1, in another order in memory, as lists."""
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
    """Arguments of `prepare` that bring the same arrays."""
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
    done = CliRunner().invoke(app, [*command, str(folder / "d.npz"), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["loss"]


@pytest.mark.parametrize("name", BUILT)
def test_the_command_line_is_the_trainer(name: str, tmp_path: Path) -> None:
    """A run and a measurement of arrays in Python and of the same in a file, floating point and one-hot."""
    zo = inject_all(BUILT[name](), batch=2)
    zo.save(tmp_path / "m.zo.tflite")
    example, details = Example.of(name, 3), model(name)
    inputs = [
        value_forms(x, details.input_details(i)).get("float32", x) for i, x in enumerate(example.inputs)
    ]
    forms = label_forms(example.labels, details.metadata.loss, details.label_details())
    names = details.metadata.original.inputs
    file = dict(zip(names, inputs, strict=True)) | {"y": forms.get("one-hot", forms["own"])}
    trainer = Trainer(zo, Settings(tasks=(Weights(),), batch_size=4), "litert-ref")
    measured = trainer.evaluate(example.inputs, example.labels)["loss"]
    runtime = ["--runtime", "litert-ref"]
    assert loss_of(file, tmp_path, "evaluate", *runtime, str(tmp_path / "m.zo.tflite")) == measured
    command = ["--batch-size", "4", "--steps", "3", "--algorithm", "weight", "--keep", "last"]
    output = ["-o", str(tmp_path / "t.tflite")]
    trained = loss_of(file, tmp_path, "train", *runtime, *command, *output, str(tmp_path / "m.zo.tflite"))
    trainer.fit(inputs, forms["own"], steps=3, keep="last", validation_data=(inputs, forms["own"]))
    assert trainer.evaluate(inputs, forms["own"])["loss"] == trained
    assert trainer.export().to_bytes() == (tmp_path / "t.tflite").read_bytes()


@pytest.mark.parametrize("form", ["own", "float32", "pixels"])
def test_firmware_has_the_same_samples(form: str, tmp_path: Path) -> None:
    """The arrays in the generated source, from the command line and from Python."""
    zo = inject_all(pixel_model())
    zo.save(tmp_path / "m.zo.tflite")
    example = Example.of("pixels", 1)
    x = value_forms(example.inputs[0], model("pixels").input_details())[form]
    np.savez(tmp_path / "d.npz", x=x, y=example.labels)
    arguments = ["firmware", str(tmp_path / "m.zo.tflite"), "--data", str(tmp_path / "d.npz"), "--steps", "2"]
    done = CliRunner().invoke(app, [*arguments, "--samples", "7", "-o", str(tmp_path / "f")])
    assert done.exit_code == 0, done.output
    (path,) = (tmp_path / "f").rglob("*_samples.cc")
    made = generate_firmware(zo, steps=2, samples=7, data={"x": x[:7], "y": example.labels[:7]})
    (text,) = (content for name, content in made.files.items() if name.endswith("_samples.cc"))
    for source in (path.read_text(), text):
        arrays = re.findall(r"const int\w+ k(\w+)\[kCount\]\[\d+\] = \{([^;]*)\};", source)
        found = {name: np.array(re.findall(r"-?\d+", values), int) for name, values in arrays}
        np.testing.assert_array_equal(found["Input0"], example.inputs[0][:7].reshape(-1))
        np.testing.assert_array_equal(found["Labels"], example.labels[:7])


def test_targets() -> None:
    """An autoencoder's are its samples; given ones are quantized with the scale of the output."""
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
    data = Data([RNG.integers(0, 9, (6, 2)), RNG.integers(0, 9, (6, 3))], np.arange(6))
    again = data.take(slice(2)) + data.take(np.array([2, 3])) + data.take(np.arange(6) > 3)
    assert len(again) == 6 and again.labels.tolist() == list(range(6))
    assert all(np.array_equal(a, b) for a, b in zip(again.inputs, data.inputs, strict=True))


def test_implausible_ranges_are_warned_about_once() -> None:
    x, y = np.full((4, 8, 8, 1), 100.0), np.arange(4)
    trainer = Trainer(inject_all(BUILT["classes"](), batch=4), Settings(tasks=(Weights(),), batch_size=4))
    with pytest.warns(
        DataWarning, match="x goes from 100 to 100, .*: 100% of the values are clipped"
    ) as told:
        found = prepare(trainer.runtime, x, y)
        trainer.fit(found, steps=1, validation_data=found)
    assert len([w for w in told if w.category is DataWarning]) == 1
    with pytest.warns(DataWarning, match="are clipped"):
        trainer.predict(x)


# --- what is refused ----------------------------------------------------------------------------------------

X = RNG.integers(-128, 128, (8, 8, 8, 1)).astype(np.int8)
Y = np.arange(8) % 4
NAN = np.where(np.arange(512).reshape(X.shape) == 77, np.nan, X / np.float32(64))
FEATURES = RNG.integers(-128, 128, (8, 10)).astype(np.int8)

WINDOWS, PAIRS = RNG.normal(0, 0.5, (4, 24)), RNG.normal(0, 1, (4, 6, 6, 2))


def bad(said: str, name: str = "classes", **arrays: Any) -> tuple[str, dict[str, Any], str]:
    return name, arrays, said


HOT = np.eye(4)[Y]
REFUSED = {
    "no labels": bad(
        "the model's loss (cross_entropy) needs labels: give y, or a file that has an array «y»", x=X
    ),
    "no samples": bad("no array «x»; there are: images, y", images=X, y=Y),
    "label too large": bad("y: label 4 is out of range: expected 0..3 (-1: unlabelled)", x=X, y=Y + 1),
    "label -2": bad("y: label -2 is out of range: expected 0..3", x=X, y=Y - 2),
    "large label": bad("y: label 18446744073709551615 is out", x=X, y=np.full(8, 2**64 - 1, np.uint64)),
    "all unlabelled": bad("y: no sample has a label (all are -1)", x=X, y=Y * 0 - 1),
    "float labels": bad("y is float64; labels are integers, which y.astype(int) makes", x=X, y=Y * 1.0),
    "rows": bad("y: expected 1 label(s) per sample, got shape [8, 3]", x=X, y=np.ones((8, 3), int)),
    "two hot": bad("y: shape [8, 4] is that of one-hot labels, which hold a single 1", x=X, y=HOT + HOT[0]),
    "scores": bad("of scores y.argmax(1) makes labels", x=X, y=HOT * 0.9),
    "lengths": bad("x has 8 samples, y has 7 labels", x=X, y=Y[1:]),
    "one label": bad("y is a single number, not an array of samples", x=X, y=np.int64(3)),
    "text": bad("y is <U1, not numbers", x=X, y=np.array(["a"] * 8)),
    "shape": bad("x: expected samples of shape [8, 8, 1], got [7, 8, 1]", x=X[:, :7], y=Y),
    "one sample": bad("x: expected samples of shape [8, 8, 1], got [8, 1]", x=X[0], y=Y),
    "empty": bad("x is empty (shape [0, 8, 8, 1])", x=X[:0], y=Y[:0]),
    "NaN": bad("x contains NaN or infinity", x=NAN, y=Y),
    "infinity": bad("x contains NaN or infinity", x=np.where(np.isnan(NAN), np.inf, NAN), y=Y),
    "integers": bad("x is int32; expected floating point, uint8 (pixels) or int8", x=X.astype(np.int32), y=Y),
    "complex": bad("x is complex128, not numbers", x=X * 1j, y=Y),
    "pixels": bad("model covers -2.05..1.94, which is neither; give floating", x=X.astype(np.uint8), y=Y),
    "int8 for uint8": bad("x is int8, but the model reads uint8 there", "uint8 input", x=X, y=Y),
    "one of two": bad(
        "the model has 2 inputs; expected arrays image, features (or x0, x1); there are: image, y",
        "two inputs",
        image=X,
        y=Y,
    ),
    "other lengths": bad(
        "image has 8 samples, features has 7", "two inputs", image=X, features=FEATURES[1:], y=Y
    ),
    "binary 2": bad("y: label 2 is out of range: expected 0..1", "binary", x=PAIRS, y=np.full((4, 3), 2)),
    "binary row": bad("y: expected 3 label(s) per sample, got shape [4]", "binary", x=PAIRS, y=Y[:4]),
    "targets": bad("y: expected 24 values per sample, got", "targets", x=WINDOWS, y=WINDOWS[:, 1:]),
    "target integers": bad(
        "y is int64; expected floating", "targets", x=WINDOWS, y=np.zeros((4, 24), np.int64)
    ),
    "target NaN": bad("y contains NaN or infinity", "targets", x=WINDOWS, y=WINDOWS * np.nan),
}


@pytest.mark.filterwarnings("ignore::tflm_zo.data.DataWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_the_same_words(case: str, tmp_path: Path) -> None:
    """From a dictionary, from arrays where there is a form of it, and from a file, whose name comes first."""
    name, arrays, said = REFUSED[case]
    zo = inject_all(BUILT[name](), batch=2)
    trainer = Trainer(zo, Settings(tasks=(Weights(),), batch_size=4))
    before = {k: w.copy() for k, w in trainer.runtime.read_weights().items()}
    ways: list[Callable[[], Any]] = [
        lambda: trainer.evaluate(arrays),
        lambda: trainer.fit(arrays, steps=2, keep="last", log=tmp_path / "log"),
        lambda: trainer.fit(Example.of(name, 0).inputs, Example.of(name, 0).labels, validation_data=arrays),
    ]
    if "x" in arrays:
        ways.append(lambda: trainer.evaluate(arrays["x"], arrays.get("y")))
    for way in ways:
        with pytest.raises(DataError) as told:
            way()
        assert said in str(told.value)
    assert trainer.forwards == 0 and not (tmp_path / "log").exists()
    assert all(np.array_equal(w, before[k]) for k, w in trainer.runtime.read_weights().items())
    np.savez(tmp_path / "d.npz", **arrays)
    zo.save(tmp_path / "m.zo.tflite")
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path / "m.zo.tflite"), str(tmp_path / "d.npz")])
    assert done.exit_code == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path / 'd.npz'}: ") and said in line


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (
            "classes",
            (X,),
            r"the model's loss \(cross_entropy\) needs labels: give y, or a file that has an array «y»$",
        ),
        ("classes", ([X, X], Y), r"x: expected samples of shape \[8, 8, 1\], got \[8, 8, 8, 1\]"),
        ("classes", ([[1.0], [1.0, 2.0]], Y), "x: its samples differ in shape, so they make no array"),
        ("classes", (None, Y), "x is object, not numbers"),
        ("classes", (3, Y), "x is a single number, not an array of samples"),
        ("classes", (X.tolist(), Y), "x is int64; expected floating point, uint8"),
        ("classes", (X, [[0]] * 7 + [[1, 2]]), "y: its samples differ in shape"),
        ("two inputs", (X, Y), r"x: the model has 2 inputs \(image, features\), got 1 array\(s\)"),
        ("two inputs", ([X], Y), r"got 1 array\(s\)"),
        ("two inputs", ([X, FEATURES, FEATURES], Y), r"got 3 array\(s\)"),
        ("two inputs", ({"image": X, "feature": FEATURES}, Y), "there are: image, feature$"),
        ("two inputs", ([FEATURES, X], Y), r"image: expected samples of shape \[8, 8, 1\], got \[10\]"),
        ("two inputs", ([X, FEATURES[1:]], Y), "image has 8 samples, features has 7$"),
    ],
)
def test_forms_of_python_that_are_refused(name: str, arguments: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        prepare(model(name), *arguments)


def test_labels_of_what_has_them() -> None:
    data = prepare(model("classes"), X, Y)
    with pytest.raises(DataError, match="y: x has its labels already"):
        prepare(model("classes"), data, Y)
    with pytest.raises(DataError, match="the model has no loss, so there is nothing to measure; inject it"):
        prepare(Inputs(inject_all(MODELS["small_cnn"](), loss="none")), X, Y)
    np.testing.assert_array_equal(prepare(model("classes"), {"x": X, "y": Y}, Y[::-1]).labels, Y[::-1])
