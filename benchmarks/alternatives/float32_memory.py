# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Memory of backpropagation in float32 with one sample: by the equations of ElasticZO, and by backpropagation.c.

    python benchmarks/alternatives/float32_memory.py lenet5.tflite kws_ref_model.tflite …

The equations count every weight, gradient, activation and error. backpropagation.c has no gradients, because weights
move at once, and activations and errors share memory when they are not needed at the same time. Without models the
LeNet-5 of the tests is taken.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from networks import FloatNetwork, UnsupportedError, network_sizes

sys.path.insert(0, str(Path(__file__).parents[1]))
from harness import add_models_argument, chosen_models

from tflm_zo import inject
from tflm_zo.converters import read_metadata
from tflm_zo.planner.ways import backpropagation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models_argument(parser, "int8 models")
    print("| model | weights | activations and errors | backpropagation.c | equations |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, model in chosen_models(parser.parse_args().models).items():
        try:
            sizes = network_sizes(FloatNetwork.of(model))
        except UnsupportedError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        trained = {t.name for t in read_metadata(inject(model, trainable="all", nodes=())).trainable}
        weights, rest = 4 * sizes["WEIGHTS"], 4 * (sizes["ARENA"] + sizes["PATCH"])
        equations = backpropagation(model, trained, 1).float32
        print(f"| {name} | {weights:,} B | {rest:,} B | {weights + rest:,} B | {equations:,} B |")


if __name__ == "__main__":
    main()
