"""ElasticZO's equations, against sums by hand over the layers of a small network."""

from helpers.models import MODELS
from tflm_zo.converters import load_model
from tflm_zo.planner.ways import backpropagation

BATCH = 3
# small_cnn: values of an activation, and weights with biases, of its layers.
ACTIVATIONS = {"conv": 8 * 8 * 4, "pool": 4 * 4 * 4, "flatten": 64, "fc": 4}
WEIGHTS = {"conv": 3 * 3 * 4 + 4, "fc": 64 * 4 + 4}
INPUTS = {"fc": 64}


def test_layers_take_what_the_equations_say() -> None:
    model = load_model(MODELS["small_cnn"]())
    theta, a = sum(WEIGHTS.values()), BATCH * sum(ACTIVATIONS.values())
    of_layers = BATCH * (ACTIVATIONS["conv"] + ACTIVATIONS["fc"])
    found = backpropagation(model, {"conv/filter", "fc/filter"}, BATCH)
    assert found.float32 == 4 * (2 * theta + 2 * a)  # eq. 2
    assert found.adam == found.float32 + 2 * 4 * theta  # eq. 5
    assert found.int8 == 2 * theta + 2 * a + 4 * (of_layers + theta) + 4 * BATCH * INPUTS["fc"]  # eq. 13
    # The last layer alone.
    found = backpropagation(model, {"fc/filter"}, BATCH)
    g, e = WEIGHTS["fc"], BATCH * ACTIVATIONS["fc"]
    assert found.float32 == 4 * (theta + a + g + e)  # eq. 4
    assert found.int8 == theta + a + g + e + 4 * (of_layers + g)  # eq. 15
    # The biases of the last layer alone.
    found = backpropagation(model, {"fc/bias"}, BATCH)
    assert found.float32 == 4 * (theta + a + 4 + e)
