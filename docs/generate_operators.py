# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Makes docs/operators.md: of the tables of converters, the delegate's table, and models of the tests.

python docs/generate_operators.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tflm_zo.converters import ConversionError, inject
from tflm_zo.converters.kernels import CONTROL_FLOW, CONVERTED, FILTER_OPERATORS, KERNELS, STATES
from tflm_zo.converters.model.schema import OPERATOR_NAMES, TensorType
from tflm_zo.converters.passes.batch import RULES, no_batch
from tflm_zo.converters.passes.plan_nodes import POOLINGS
from tflm_zo.converters.states import VARIABLE_OPERATORS

DOCS = Path(__file__).parent
TYPES = {number: name.lower() for name, number in vars(TensorType).items() if isinstance(number, int)}

PAGE = """# Supported operators

<!-- Made by docs/generate_operators.py: change the tables of converters and run it again. -->

`inject` and `train` accept the {count} operators of this table, which TensorFlow Lite Micro (TFLM) runs on int8, some
also on int16. They refuse every other operator by name, and an operator whose shapes, scales or constants TFLM's kernel
does not accept.

* **Data**: types of the inputs, apart from filters, states, shapes and axes. With int16 data, weights are int8 and
  biases int64; weight perturbation trains the weights.
* **Trained**: weight perturbation, node perturbation and exact gradients train filter and biases of this operator.
  *Weights*: weight perturbation trains its int8 filters.
* **Nodes**: the operator *carries* nodes, or is a *pooling*: the nodes of the layer before it may lie on its outputs.
* **Errors pass**: exact gradients also train layers before this operator. Other operators end an exact tail. Weight
  perturbation and node perturbation need no errors: they train layers before any operator.
* **Desktop**: the kernel of training in LiteRT. *Exact* is [a kernel of this project](../ops/kernels/README.md),
  *reference* is LiteRT's reference kernel. Both give TFLM's bits, except for a RELU6 with a change of scale. A model
  with an operator of *TFLM* trains in TFLM's interpreter only. On int16, all but FULLY_CONNECTED are *reference*.
* **Batch**: several samples share an invoke on the desktop. A model with another operator runs one sample at a time.

| operator | data | trained | nodes | errors pass | desktop | batch |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

The loss reads the logits before a SOFTMAX, LOG_SOFTMAX or LOGISTIC at the output, so errors need not pass these.

{variables} make resource variables, the states of
[streaming networks](streaming.md). {states} also have states.

A SOFTMAX of int16 may be at an output only: TFLM computes its table in floating point, and builds differ by a level at
times. No loss reads it.

Not supported: control flow ({control}), custom operators, and operators in floating point, apart from LOGISTIC,
SOFTMAX and LOG_SOFTMAX at the output of a model.

Next: [models of others](models_of_others.md), public models with these operators.
"""


def page() -> str:
    """Returns the text of docs/operators.md."""
    sys.path.insert(0, str(DOCS.parent / "tests"))
    from helpers.models.operators_between_layers import between_layers, maps_activations
    from helpers.models.single_operators import NOT_IN_LITERT, NOT_IN_REFERENCE

    def passed(name: str) -> str:
        if name in filters:
            return "yes"
        if not maps_activations(name):
            return ""
        model = between_layers(name)
        layers = sum(op.code.name in filters for op in model.subgraphs[0].operators)
        try:
            inject(model, nodes=(), tail=layers)
        except ConversionError as error:
            condition = re.search(r"of `y`, which (.*?)\. Received", str(error))
            return f"unless it {condition[1]}" if condition else ""
        return "yes"

    filters, poolings = named(FILTER_OPERATORS), named(POOLINGS)
    exact, missing = exact_kernels(), (*NOT_IN_LITERT, *NOT_IN_REFERENCE)
    rows = []
    for name, number in sorted((OPERATOR_NAMES[number], number) for number in KERNELS):
        nodes = "carries" if name in filters else "pooling" if name in poolings else ""
        desktop = "exact" if name in exact else "TFLM" if name in missing else "reference"
        batch = RULES.get(number) not in (None, no_batch)
        trained = "yes" if name in filters else "weights" if number in STATES else ""
        cells = (name, data_of(number), trained, nodes, passed(name), desktop, yes(batch))
        rows.append(f"| {' | '.join(cells)} |")
    return PAGE.format(
        count=len(rows),
        rows="\n".join(rows),
        variables=listed(named(VARIABLE_OPERATORS)),
        states=listed(named(STATES)),
        control=listed(named(CONTROL_FLOW)),
    )


def exact_kernels() -> set[str]:
    """Reads the names of the operators that the delegate executes."""
    source = (DOCS.parent / "ops" / "tflite" / "zo_exact_op.c").read_text(encoding="utf-8")
    table = source.partition("kOperations[] = {")[2].partition("};")[0]
    return set(re.findall(r'\{kTfLiteBuiltin\w+, "(\w+)"', table))


def named(numbers: Iterable[int]) -> list[str]:
    """Returns the names of operators."""
    return [OPERATOR_NAMES[number] for number in numbers]


def data_of(number: int) -> str:
    """Lists the types of an operator's data, or the conversions that it makes."""
    if number in CONVERTED:
        return ", ".join(f"{TYPES[a]} → {TYPES[b]}" for a, b in CONVERTED[number])
    return ", ".join(TYPES[kind] for kind in KERNELS[number].data)


def yes(value: bool) -> str:
    """Returns the text of a cell."""
    return "yes" if value else ""


def listed(names: list[str]) -> str:
    """Joins names as a sentence does."""
    return f"{', '.join(names[:-1])} and {names[-1]}"


if __name__ == "__main__":
    (DOCS / "operators.md").write_text(page(), encoding="utf-8")
