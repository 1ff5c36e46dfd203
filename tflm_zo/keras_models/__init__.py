# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Reference networks, built with Keras 3: each ends in a softmax and converts to int8.

They need TensorFlow, but only when one is built: ``pip install 'tflm_zo[keras]'``.
"""

from __future__ import annotations

from .activity_cnn import activity_cnn
from .digits_cnn import digits_cnn
from .ds_cnn import ds_cnn
from .lenet5 import lenet5
from .mobilenet_v1 import mobilenet_v1
from .pretrain import pretrain
from .range_regularization import narrow_activations
from .resnet8 import resnet8

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
