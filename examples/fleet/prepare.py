# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Makes a ZO model, the samples of each client, and test samples for a fleet.

    python examples/fleet/prepare.py -o fleet

A small CNN that knows scikit-learn's upright digits is to learn rotated ones, of which each client has two
classes. The folder gets digits.zo.tflite, client-0.npz and so on, and test.npz.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tflm_zo as zo
from tflm_zo.demo.scenarios import SCENARIOS
from tflm_zo.training import inject_settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder, which is made")
    parser.add_argument("--clients", type=int, default=10, help="up to 10 (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=40, help="of pre-training (default: %(default)s)")
    options = parser.parse_args()
    import keras

    from tflm_zo.keras_models import pretrain

    digits = SCENARIOS["digits"]()
    keras.utils.set_random_seed(0)
    network = digits.build()
    pretrain(network, *digits.pretrain, epochs=options.epochs)
    plain = zo.convert(network, digits.pretrain[0][:300]).model
    settings = zo.algorithms.weight(batch_size=16, queries=32)
    options.output.mkdir(parents=True, exist_ok=True)
    zo.inject(plain, inject_settings(settings, batch=16)).save(options.output / "digits.zo.tflite", force=True)
    x, y = digits.adapt
    for client in range(options.clients):
        own, following = (np.flatnonzero(y == (client + i) % 10) for i in (0, 1))
        rows = np.concatenate([own[: len(own) // 2], following[len(following) // 2 :]])
        np.savez(options.output / f"client-{client}.npz", x=x[rows], y=y[rows])
    np.savez(options.output / "test.npz", x=digits.test[0], y=digits.test[1])
    print(f"{options.output}: a ZO model, {options.clients} clients, a test")


if __name__ == "__main__":
    main()
