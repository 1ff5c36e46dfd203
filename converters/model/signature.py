# SPDX-License-Identifier: Apache-2.0
"""A signature: names for the inputs and outputs of a subgraph."""

from __future__ import annotations

import dataclasses

from .subgraph import Subgraph
from .tensor import Tensor


@dataclasses.dataclass(eq=False)
class Signature:
    """A signature of a model.

    Attributes:
        key: its name.
        subgraph: subgraph that it runs.
        inputs: (name, tensor) pairs in the order of the file.
        outputs: the same for outputs.
    """

    key: str
    subgraph: Subgraph
    inputs: list[tuple[str, Tensor]] = dataclasses.field(default_factory=list)
    outputs: list[tuple[str, Tensor]] = dataclasses.field(default_factory=list)
