"""Data that are refused: by Python and the command line by the same words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import refused
from helpers.injection import inject_all
from helpers.inputs import BUILT, Example, model
from helpers.models import MODELS
from tflm_zo.data import DataError, Inputs, prepare
from tflm_zo.training import Settings, Trainer, Weights

RNG = np.random.default_rng(0)


# --- refusals -----------------------------------------------------------------------------------------------

X = RNG.integers(-128, 128, (8, 8, 8, 1)).astype(np.int8)
Y = np.arange(8) % 4
NAN = np.where(np.arange(512).reshape(X.shape) == 77, np.nan, X / np.float32(64))
FEATURES = RNG.integers(-128, 128, (8, 10)).astype(np.int8)
WINDOWS, PAIRS = RNG.normal(0, 0.5, (4, 24)), RNG.normal(0, 1, (4, 6, 6, 2))


def bad(said: str, name: str = "classes", **arrays: Any) -> tuple[str, dict[str, Any], str]:
    return name, arrays, said


HOT = np.eye(4)[Y]
REFUSED = {
    "no labels": bad("the model's loss (cross_entropy) needs labels: give y, or a file that has an array `y`", x=X),
    "no samples": bad("no array `x`; there are: images, y", images=X, y=Y),
    "label -2": bad("y: label -2 is out of range. It must be in 0..3", x=X, y=Y - 2),
    "large label": bad("y: label 18446744073709551615 is out", x=X, y=np.full(8, 2**64 - 1, np.uint64)),
    "all unlabelled": bad("y: no sample has a label (all are -1)", x=X, y=Y * 0 - 1),
    "float labels": bad("y is float64; labels are integers, which y.astype(int) makes", x=X, y=Y * 1.0),
    "rows": bad("`y` must have 1 label(s) per sample. Received: shape [8, 3]", x=X, y=np.ones((8, 3), int)),
    "two hot": bad("y: shape [8, 4] is that of one-hot labels, which hold a single 1", x=X, y=HOT + HOT[0]),
    "scores": bad("of scores y.argmax(1) makes labels", x=X, y=HOT * 0.9),
    "lengths": bad("x has 8 samples, y has 7 labels", x=X, y=Y[1:]),
    "one label": bad("y is a single number, not an array of samples", x=X, y=np.int64(3)),
    "text": bad("y is <U1, not numbers; np.unique(y, return_inverse=True)[1]", x=X, y=np.array(["a"] * 8)),
    "sound": bad("x is int16; expected floating point", x=X.astype(np.int16), y=Y),
    "sound of -1..1": bad("or x / 32768 for sound in -1..1", x=X.astype(np.int16), y=Y),
    "parts": bad("x=data['X_train'], y=data['y_train']) makes a file", X_train=X, y_train=Y),
    "labels from 1": bad("y: label 4 is out of range. It must be in 0..3, or -1 for no label; these", x=X, y=Y + 1),
    "a table of labels": bad("as Edge Impulse's, give y[:, 0] - 1", x=X, y=np.stack([Y + 1, Y, Y], 1)),
    "a table of four columns": bad("Impulse's, give y[:, 0] - 1", x=X, y=np.stack([Y + 1, *[Y + 9] * 3], 1)),
    "a table of labels from 0": bad("Impulse's, give y[:, 0]", x=X, y=np.stack([Y, Y + 9, Y], 1)),
    "shape": bad("`x` must have samples of shape [8, 8, 1]. Received: [7, 8, 1].", x=X[:, :7], y=Y),
    "one sample": bad("`x` must have samples of shape [8, 8, 1]. Received: [8, 1].", x=X[0], y=Y),
    "empty": bad("x is empty (shape [0, 8, 8, 1])", x=X[:0], y=Y[:0]),
    "NaN": bad("x contains NaN or infinity", x=NAN, y=Y),
    "infinity": bad("x contains NaN or infinity", x=np.where(np.isnan(NAN), np.inf, NAN), y=Y),
    "integers": bad("x is int32; expected floating point, uint8 (pixels) or int8", x=X.astype(np.int32), y=Y),
    "complex": bad("x is complex128, not numbers", x=X * 1j, y=Y),
    "pixels": bad("model covers -2.05..1.94, which is neither; give floating", x=X.astype(np.uint8), y=Y),
    "int8 for uint8": bad("x is int8, but the model reads uint8 there", "uint8 input", x=X, y=Y),
    "one of two": bad("expected arrays image, features (or x0, x1); there are: image, y", "two inputs", image=X, y=Y),
    "other lengths": bad("image has 8 samples, features has 7", "two inputs", image=X, features=FEATURES[1:], y=Y),
    "binary 2": bad("y: label 2 is out of range. It must be in 0..1", "binary", x=PAIRS, y=np.full((4, 3), 2)),
    "binary row": bad("`y` must have 3 label(s) per sample. Received: shape [4]", "binary", x=PAIRS, y=Y[:4]),
    "targets": bad("`y` must have 24 values per sample. Received:", "targets", x=WINDOWS, y=WINDOWS[:, 1:]),
    "target integers": bad("y is int64; expected floating", "targets", x=WINDOWS, y=np.zeros((4, 24), np.int64)),
    "target NaN": bad("y contains NaN or infinity", "targets", x=WINDOWS, y=WINDOWS * np.nan),
}


@pytest.mark.filterwarnings("ignore::tflm_zo.data.DataWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_the_same_words(case: str, tmp_path: Path) -> None:
    """Refuses the same in a dictionary, in arrays that have that form, and in a file, whose name comes first."""
    name, arrays, said = REFUSED[case]
    zo = inject_all(BUILT[name](), batch=2)
    trainer = Trainer(zo, Settings(tasks=(Weights(),), batch_size=4))
    before = {k: w.copy() for k, w in trainer.runtime.read_weights().items()}
    attempts: list[Callable[[], Any]] = [
        lambda: trainer.evaluate(arrays),
        lambda: trainer.fit(arrays, steps=2, keep="last", log=tmp_path / "log"),
        lambda: trainer.fit(Example.of(name, 0).inputs, Example.of(name, 0).labels, validation_data=arrays),
    ]
    if "x" in arrays:
        attempts.append(lambda: trainer.evaluate(arrays["x"], arrays.get("y")))
    for attempt in attempts:
        with pytest.raises(DataError) as told:
            attempt()
        assert said in str(told.value)
    assert trainer.forwards == 0 and not (tmp_path / "log").exists()
    assert all(np.array_equal(w, before[k]) for k, w in trainer.runtime.read_weights().items())
    np.savez(tmp_path / "d.npz", **arrays)
    zo.save(tmp_path / "m.zo.tflite")
    line = refused(tmp_path, "evaluate", tmp_path / "m.zo.tflite", tmp_path / "d.npz", said=said)
    assert line.startswith(f"error: {tmp_path / 'd.npz'}: ")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("classes", (X,), r"the model's loss \(cross_entropy\) needs labels: give y, or a file that has an array `y`$"),
        ("classes", ([X, X], Y), r"`x` must have samples of shape \[8, 8, 1\]. Received: \[8, 8, 8, 1\]"),
        ("classes", ([[1.0], [1.0, 2.0]], Y), "x: its samples differ in shape, so they make no array"),
        ("classes", (np.ma.masked_less(X / np.float32(64), 0), Y), r"x has masked values.*; give x.filled"),
        ("classes", (list(np.ma.masked_less(X / np.float32(64), 0)), Y), "x has masked values"),
        ("classes", (X / np.float32(64), np.ma.masked_equal(Y, 2)), "y has masked values"),
        ("classes", (None, Y), "x is object, not numbers$"),
        ("classes", (np.array([*X, None], object)[:8], Y), r"x is object.*; np.stack\(x\) makes an array"),
        ("classes", (3, Y), "x is a single number, not an array of samples"),
        ("classes", (X.tolist(), Y), "x is int64; expected floating point, uint8"),
        ("classes", (X, [[0]] * 7 + [[1, 2]]), "y: its samples differ in shape"),
        ("two inputs", (X, Y), r"x: the model has 2 inputs \(image, features\), got 1 array\(s\)"),
        ("two inputs", ([X], Y), r"got 1 array\(s\)"),
        ("two inputs", ([X, FEATURES, FEATURES], Y), r"got 3 array\(s\)"),
        ("two inputs", ({"image": X, "feature": FEATURES}, Y), "there are: image, feature$"),
        ("two inputs", ([FEATURES, X], Y), r"`image` must have samples of shape \[8, 8, 1\]. Received: \[10\]"),
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
