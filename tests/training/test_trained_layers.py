"""The sentence that describes a run's trained layers."""

from typing import Any

import pytest

from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.converters import Last
from tflm_zo.training import Exact, Nodes, Settings, TrainedLayers, Weights, trained_layers

WHOLE = "trains 2 of 2 layers (100 % of the weights)"
FC = "trains 1 of 2 layers (88 % of the weights): fc"
CONV = "trains 1 of 2 layers (12 % of the weights): conv"
STAYS = "; the other stays as it is"
NO_NODES = (
    "; 1 carries no nodes, most often for too many outputs to tell apart (inspect says why, of a plain model with "
    "--nodes; --algorithm weight trains all)"
)
LAST = "; 1 lies before the part that exact.last=1 trains"
NONE = "trains 0 of 2 layers (0 % of the weights); the other 2 stay as they are"


@pytest.mark.parametrize(
    ("options", "settings", "sentence"),
    [
        ({}, Settings(tasks=(Weights(),), batch_size=64), WHOLE),
        ({"nodes": "*"}, Settings(), WHOLE),
        ({"nodes": "*", "cuts": ("layers",)}, Settings(), WHOLE),
        ({"trainable": Last(1)}, Settings(tasks=(Weights(),), batch_size=64), FC + STAYS),
        ({"trainable": "conv"}, Settings(tasks=(Weights(),), batch_size=64), CONV + STAYS),
        ({"nodes": "fc", "trainable": "nodes"}, Settings(), FC + NO_NODES),
        ({"nodes": "fc", "trainable": "all"}, Settings(), FC + NO_NODES),
        ({"nodes": "fc", "trainable": "all"}, Settings(tasks=(Nodes(), Weights(scope="layers"))), WHOLE),
        ({"nodes": "*"}, Settings(layers=("conv",)), CONV + "; the other is left out"),
        ({"nodes": "*"}, Settings(tasks=(Exact(),)), FC + LAST),
        ({"nodes": "fc", "trainable": "nodes"}, Settings(tasks=(Exact(),)), FC + LAST),
        ({"trainable": "none"}, Settings(tasks=(Weights(),), batch_size=64), NONE),
    ],
)
def test_sentence(options: dict[str, Any], settings: Any, sentence: str) -> None:
    assert trained_layers(inject_all(MODELS["small_cnn"](), **options), settings).sentence == sentence


def test_values() -> None:
    """Counts 36 weights of small_cnn in a convolution and 256 in a dense layer."""
    found = trained_layers(inject_all(MODELS["small_cnn"](), nodes="fc", trainable="nodes"), Settings())
    assert found == TrainedLayers(("fc",), 2, 256, 292, found.sentence)


def test_many_layers() -> None:
    model = inject_all(MODELS["lenet5"]())
    assert (
        trained_layers(model, Settings(tasks=(Weights(),), batch_size=64)).sentence
        == "trains 5 of 5 layers (100 % of the weights)"
    )
