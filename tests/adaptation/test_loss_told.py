"""The loss of a model without SOFTMAX or LOGISTIC, by its labels."""

from typing import Any

import numpy as np
import pytest

from helpers.models import MODELS, GraphBuilder
from helpers.models.graph_builder import Activation
from tflm_zo import adapt
from tflm_zo.adaptation import evaluate, loss_told
from tflm_zo.converters import load_model, read_metadata

N, SHAPE = 6, (2, 2, 3)


def image() -> bytes:
    g = GraphBuilder(3)
    return g.build([g.conv(g.input("x", [1, 2, 2, 2]), "c", 3, (1, 1), activation=Activation.NONE)])


def drawn(shape: tuple[int, ...], end: int = 2) -> Any:
    return np.random.default_rng(1).integers(0, end, (N, *shape))


@pytest.mark.parametrize(
    "labels, kind",
    [
        (drawn(SHAPE[:2], 3), "cross_entropy"),
        (drawn((4,), 3) - 1, "cross_entropy"),
        (np.eye(3, dtype=np.float32)[drawn(SHAPE[:2], 3)], "cross_entropy"),
        (drawn(SHAPE), "binary_cross_entropy"),
        (drawn(SHAPE) - 1, "binary_cross_entropy"),
        (drawn(SHAPE) / 3, "mse"),
        (drawn(SHAPE, 100), "mse"),
        (drawn(SHAPE, 100).astype(np.int8), "mse"),
        (drawn((), 3) / 2, None),  # refused later, with the shape
        (None, None),
    ],
)
def test_labels_tell_the_loss(labels: Any, kind: str | None) -> None:
    model, x = load_model(image()), np.zeros((N, 2, 2, 2), np.int8)
    assert loss_told(model, x, labels) == kind
    if labels is not None:
        assert loss_told(model, {"x": x, "y": labels}) == kind
    assert loss_told(model, x, labels, "mse") == "mse"


def test_a_classifier_tells_it_itself() -> None:
    model = load_model(MODELS["lenet5"]())
    assert loss_told(model, np.zeros(1), drawn((), 2)) is None


def test_damaged_outputs_are_left_to_inject() -> None:
    model, x = load_model(image()), np.zeros((N, 2, 2, 2), np.int8)
    for shape in ((), (0, 2, 2, 3)):
        model.subgraphs[0].outputs[0].shape = shape
        assert loss_told(model, x, drawn(SHAPE)) is None
    model.subgraphs[0].outputs = []
    assert loss_told(model, x, drawn(SHAPE)) is None


def test_training_and_evaluation_take_it() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, (32, 2, 2, 2)).astype(np.int8)
    y = x[..., 0] > 0
    found = adapt(image(), x, y, steps=200)
    assert read_metadata(found.trainer.model).known_loss.kind == "cross_entropy"
    before, after = (evaluate(model, x, y.astype(int)).accuracy for model in (image(), found.model))
    assert before is not None and after is not None and after > max(0.9, before)
