"""Reference networks, built with Keras 3: each ends in a softmax and converts to int8.

They need TensorFlow, but only when one is built: ``pip install 'tflm_zo[keras]'``.
"""

from .networks import activity_cnn, digits_cnn, ds_cnn, lenet5, mobilenet_v1, resnet8
from .pretraining import narrow_activations, pretrain

__all__ = [
    "activity_cnn",
    "digits_cnn",
    "ds_cnn",
    "lenet5",
    "mobilenet_v1",
    "narrow_activations",
    "pretrain",
    "resnet8",
]
