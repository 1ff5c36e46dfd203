# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""One thing changed at a time: the claims of the papers, tested on int8 models.

Each entry changes one setting of a method beside it; ``compare.py --ablations`` has the pairs. Rates are the
algorithms' own unless a change moves the best one: those come from validation data of the task "rotated".
"""

from __future__ import annotations

from method import Method

from tflm_zo.core import Rademacher

__all__ = ["ABLATIONS", "PAIRS"]

_QZO = "qzo-ff"
_PMT = "poor-mans-training"
_GRADIENT = {"rule": "gradient", "gradient_norm": True, "quantization_aware": True}

ABLATIONS: dict[str, Method] = {
    "node-gradient": Method(
        "node perturbation, fixed rate with NQ/(NQ+d-1)/s² instead of a running RMS", "node", settings=_GRADIENT
    ),
    "node-gradient-small": Method(
        "the same at a tenth of the rate", "node", settings={**_GRADIENT, "learning_rate": 0.1}
    ),
    "node-gradient-large": Method(
        "the same at ten times the rate", "node", settings={**_GRADIENT, "learning_rate": 10.0}
    ),
    "node-small": Method("node perturbation at a tenth of the rate", "node", settings={"learning_rate": 0.1}),
    "node-large": Method("node perturbation at ten times the rate", "node", settings={"learning_rate": 10.0}),
    "node-unscaled": Method(
        "the fixed rate without 1/s²", "node", settings={**_GRADIENT, "quantization_aware": False, "learning_rate": 1e4}
    ),
    "node-unnormed": Method(
        "the fixed rate without NQ/(NQ+d-1)", "node", settings={**_GRADIENT, "gradient_norm": False}
    ),
    "node-unmasked": Method(
        "node perturbation, nodes at the clamp perturbed like the others", "node", settings={"masked": False}
    ),
    "node-one-sided": Method("node perturbation, one-sided differences", "node", settings={"estimator": "one-sided"}),
    "node-8-bit": Method("node perturbation, 8-bit update", "node", injection={"update_bits": 8}),
    "weight-one-sided": Method(
        "weight perturbation, one-sided differences", "weight", settings={"estimator": "one-sided"}
    ),
    "weight-8-bit": Method("weight perturbation, 8-bit update", "weight", injection={"update_bits": 8}),
    "weight-sign": Method("weight perturbation, signs instead of magnitudes", "weight", settings={"rule": "sign"}),
    "qzo-ff-queries": Method("QZO-FF, m = 3 directions a step", _QZO, settings={"queries": 3}),
    **{
        f"pmt-block-{i + 1}": Method(
            f"Poor Man's Training, LeNet-5's {' and '.join(layers)} alone",
            _PMT,
            settings={"batch_size": 32, "layers": layers},
            most_steps=5000,
        )
        for i, layers in enumerate((("conv1", "conv2"), ("fc1",), ("fc2",), ("fc3",)))
    },
    "pmt-32": Method("Poor Man's Training, minibatch 32", _PMT, settings={"batch_size": 32}),
    "pmt-chosen": Method(
        "Poor Man's Training, the best of four blocks after an epoch each",
        _PMT,
        settings={"batch_size": 32},
        choose_block=4,
    ),
    "pmt-chosen-3": Method(
        "the same after three epochs each", _PMT, settings={"batch_size": 32}, choose_block=4, probe_epochs=3
    ),
    "mezo-rademacher": Method("MeZO with signs as directions", "mezo", settings={"perturbation": Rademacher(1)}),
}

#: (claim or question, without, with)
PAIRS: tuple[tuple[str, str, str], ...] = (
    ("layer by layer instead of all weights at once", "weight", "layer"),
    ("nodes instead of weights, layer by layer", "layer", "node"),
    ("running RMS instead of a fixed rate", "node-gradient", "node"),
    ("… at a tenth of the rate", "node-gradient-small", "node-small"),
    ("… at ten times the rate", "node-gradient-large", "node-large"),
    ("1/s² on the fixed rate", "node-unscaled", "node-gradient"),
    ("NQ/(NQ+d-1) on the fixed rate", "node-unnormed", "node-gradient"),
    ("masks at the clamp", "node-unmasked", "node"),
    ("antithetic instead of one-sided, nodes", "node-one-sided", "node"),
    ("antithetic instead of one-sided, weights", "weight-one-sided", "weight"),
    ("16-bit instead of 8-bit update, nodes", "node-8-bit", "node"),
    ("16-bit instead of 8-bit update, weights", "weight-8-bit", "weight"),
    ("magnitudes instead of signs, weights", "weight-sign", "weight"),
    ("QZO-FF: m = 3 directions", "qzo-ff", "qzo-ff-queries"),
    ("PMT: conv1 and conv2 alone", "pmt-32", "pmt-block-1"),
    ("PMT: fc1 alone", "pmt-32", "pmt-block-2"),
    ("PMT: fc2 alone", "pmt-32", "pmt-block-3"),
    ("PMT: fc3 alone", "pmt-32", "pmt-block-4"),
    ("PMT: the block chosen by an epoch each", "pmt-block-2", "pmt-chosen"),
    ("PMT: the block chosen by three epochs each", "pmt-block-2", "pmt-chosen-3"),
)
