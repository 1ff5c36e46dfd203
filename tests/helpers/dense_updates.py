# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Updates of a dense layer by errors that are given."""

from __future__ import annotations

import numpy as np

from helpers.nodes import update_from_nodes
from tflm_zo.core import NodeLayer, NodeState

ONE = 65536


def dense(inputs, errors, weights, rule, *, fraction=None, zero_point=0, **arguments):
    """An update of a dense layer by given errors."""
    layer = NodeLayer(in_c=inputs.shape[1], out_c=weights.shape[0], input_zero_point=zero_point)
    defaults = {"rate": ONE, "clip": 2**24, "seed": 0, "errors": errors.astype(np.int16)}
    return update_from_nodes(
        layer,
        NodeState(),
        weights,
        fraction,
        None,
        0,
        127,
        inputs.astype(np.int8),
        None,
        rule=rule,
        **{**defaults, **arguments},
    )
