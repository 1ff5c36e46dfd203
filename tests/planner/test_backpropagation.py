"""ElasticZO's equations, against sums by hand over the layers of a small network."""

from helpers.models import MODELS
from tflm_zo.converters import load_model
from tflm_zo.planner.ways import backpropagation

BATCH = 3
# small_cnn: values of an activation, and weights with biases, of its layers.
ACTIVATIONS = {"conv": 8 * 8 * 4, "pool": 4 * 4 * 4, "flatten": 64, "fc": 4}
WEIGHTS = {"conv": 3 * 3 * 4 + 4, "fc": 64 * 4 + 4}
INPUTS = {"fc": 64}


def test_all_layers_take_what_equations_2_5_and_13_say() -> None:
    model = load_model(MODELS["small_cnn"]())
    found = backpropagation(model, {"conv/filter", "fc/filter"}, BATCH)
    theta, a = sum(WEIGHTS.values()), BATCH * sum(ACTIVATIONS.values())
    assert found.float32 == 4 * (2 * theta + 2 * a)  # eq. 2
    assert found.adam == found.float32 + 2 * 4 * theta  # eq. 5
    of_layers = BATCH * (ACTIVATIONS["conv"] + ACTIVATIONS["fc"])
    assert found.int8 == 2 * theta + 2 * a + 4 * (of_layers + theta) + 4 * BATCH * INPUTS["fc"]  # eq. 13


def test_the_last_layer_takes_what_equations_4_and_15_say() -> None:
    model = load_model(MODELS["small_cnn"]())
    found = backpropagation(model, {"fc/filter"}, BATCH)
    theta, a = sum(WEIGHTS.values()), BATCH * sum(ACTIVATIONS.values())
    g, e = WEIGHTS["fc"], BATCH * ACTIVATIONS["fc"]
    assert found.float32 == 4 * (theta + a + g + e)  # eq. 4
    of_layers = BATCH * (ACTIVATIONS["conv"] + ACTIVATIONS["fc"])
    assert found.int8 == theta + a + g + e + 4 * (of_layers + g)  # eq. 15
