# SPDX-License-Identifier: Apache-2.0
"""The memory of the activations that enter segments."""

from __future__ import annotations

import math

import numpy as np

from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..converters.model.schema import DTYPES
from .plan import NodeRunPlan, RunPlan, WeightRunPlan

__all__ = ["Boundaries", "bytes_of_sample"]


def bytes_of_sample(model: Model, segment: int, side: str, index: int, batch: int) -> int:
    """Returns the bytes that a sample takes of an input ("inputs") or output ("outputs") of a segment."""
    tensor = getattr(model.subgraphs[segment], side)[index]
    itemsize: int = np.dtype(DTYPES[tensor.type]).itemsize
    return int(math.prod(tensor.shape) * itemsize // batch)


def _starts(plan: RunPlan) -> set[int]:
    """Returns the segments that runs which keep nothing begin with, the first one apart."""
    if isinstance(plan, NodeRunPlan):
        return {t.values["start_segment"] for t in plan.tasks if t.values["queries"]} - {0}
    assert isinstance(plan, WeightRunPlan)
    return set(plan.block_segments) - {0} if plan.value("blocks") else set()


def kept_boundaries(metadata: ZoMetadata, plan: RunPlan) -> list[int]:
    """Returns the segments whose entering activations are kept."""
    wanted = {k for start in _starts(plan) for k in metadata.entering(start)}
    if isinstance(plan, NodeRunPlan):
        for task in plan.tasks:
            wanted.add(task.values["start_segment"])
            if not task.perturbs_weights:
                wanted |= {task.input_segment if task.input_bytes else 0, task.output_segment}
        steps = () if plan.backward is None else plan.backward.steps
        wanted |= {step.segment for step in steps if step.segment is not None}
    return sorted(wanted - {0})


class Boundaries:
    """Memory of the activations that enter segments.

    Attributes:
        at: offset of each that is kept, by the segment's number.
        passing: offset of each that later segments read, in a run that keeps nothing: the place where it is
            kept, unless such a run begins at the segment or before it.
        bytes: size of all together.
    """

    def __init__(self, model: Model, metadata: ZoMetadata, plan: RunPlan) -> None:
        self._model, self._metadata = model, metadata
        self.bytes = 0
        self.at = {k: self._place(k) for k in kept_boundaries(metadata, plan)}
        first = min(_starts(plan), default=len(metadata.segments))
        skipping = sorted({k for s in metadata.segments for k in s.skips})
        self.passing = {k: self.at[k] if k in self.at and k < first else self._place(k) for k in skipping}

    def _place(self, segment: int) -> int:
        port = self._metadata.segments[segment].input_index("boundary")
        assert port is not None  # every segment but the first has one
        batch, at = self._metadata.batch, self.bytes
        size = batch * bytes_of_sample(self._model, segment, "inputs", port, batch)
        self.bytes += -(-size // 8) * 8
        return at
