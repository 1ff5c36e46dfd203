"""The depthwise-separable CNN with an embedding: its layers, and its training in int8."""

import numpy as np
import pytest

from tflm_zo import inject
from tflm_zo.training import Settings, Trainer, algorithm, inject_settings

keras = pytest.importorskip("keras", reason="Keras is not installed")
pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

SHAPE = (49, 20, 1)


def test_embedding_narrows_the_last_convolution_alone() -> None:
    """Counts weights by hand: 10 x 4 and 3 x 3 filters, pointwise ones, and the dense layer on the embedding."""
    from tflm_zo.keras_models import ds_cnn

    model = ds_cnn(SHAPE, 10, filters=12, blocks=3, stride=(4, 2), embedding=5)
    sizes = {layer.name: layer.kernel.shape for layer in model.layers if hasattr(layer, "kernel")}
    assert sizes == {
        "conv": (10, 4, 1, 12),
        "dw1": (3, 3, 12, 1),
        "pw1": (1, 1, 12, 12),
        "dw2": (3, 3, 12, 1),
        "pw2": (1, 1, 12, 12),
        "dw3": (3, 3, 12, 1),
        "pw3": (1, 1, 12, 5),
        "fc": (5, 10),
    }
    assert model.get_layer("flatten").output.shape[1:] == (5,)


def test_embedding_none_is_as_wide_as_the_rest() -> None:
    from tflm_zo.keras_models import ds_cnn

    plain, wide = ds_cnn(SHAPE, filters=12), ds_cnn(SHAPE, filters=12, embedding=12)
    assert [w.shape for w in plain.weights] == [w.shape for w in wide.weights]


@pytest.mark.slow
def test_embedding_carries_nodes_and_is_trained() -> None:
    """Converts to int8: a node for each channel of the embedding and each class, both layers moving."""
    from tflm_zo.conversion.keras import convert
    from tflm_zo.converters import read_metadata
    from tflm_zo.keras_models import ds_cnn

    keras.utils.set_random_seed(0)
    model = ds_cnn(SHAPE, 4, filters=8, blocks=2, stride=(4, 2), embedding=6)
    x = np.random.default_rng(0).random((32, *SHAPE), np.float32)
    for layer in model.layers:
        if "_bn" in layer.name:
            layer.momentum = 0.0
    model(x, training=True)  # statistics, without which activations vanish
    zo = inject(convert(model, x).model, inject_settings(algorithm("node"), batch=8))
    metadata = read_metadata(zo)
    carrying = {metadata.trainable[n.trainable].layer: (n.form, n.count) for n in metadata.nodes}
    assert carrying == {"pw2": ("mean", 6), "fc": ("plain", 4)}
    trainer = Trainer(zo, Settings(batch_size=16))
    before = trainer.runtime.read_weights()
    trainer.fit(x, np.arange(32) % 4, steps=3)
    after = trainer.runtime.read_weights()
    assert len(after) == 2
    assert all((before[name] != after[name]).any() for name in after)
