# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The invokes of weight perturbation: a control unit's requests, done by a runtime on samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Control, Request
from ..runtime import Runtime
from .minibatch_parts import MinibatchParts, together_at_most

__all__ = ["WeightInvokes"]


class WeightInvokes:
    """Does the invokes that a control unit asks for.

    Args:
        runtime: runtime with the loaded model.
        control: control unit of the run. Where its settings have more samples than there are, some of them
            are taken more often than others.
        inputs: all training samples, one array per input.
        labels: labels of all samples.

    Attributes:
        samples: samples of an invoke: one or several parts of the minibatch.
    """

    def __init__(
        self, runtime: Runtime, control: Control, inputs: list[NDArray[Any]], labels: NDArray[Any]
    ) -> None:
        self._runtime, self._control, self._count = runtime, control, len(labels)
        s = control.settings
        most = together_at_most(runtime.batch, sum(x[:1].nbytes for x in inputs))
        together = _parts_together(int(s.parts), most if runtime.takes(2 * runtime.batch) else 1)
        self.samples = together * int(s.batch)
        self._parts = MinibatchParts(inputs, labels, self.samples, int(s.parts) // together)
        self._fed: int | None = None  # first sample of the part that was fed last, until the step ends

    def losses(self, request: Request, start: int) -> NDArray[np.int32]:
        """Does an invoke from a segment on.

        Args:
            request: what the control unit asks for.
            start: number of the segment.

        Returns:
            Losses of its samples, int32 [samples], unit 2^-16, until the next invoke.
        """
        first = request.first_sample
        if first != self._fed:
            part = self._parts.find(first)
            if part is None:
                chosen = self._control.samples(first, self.samples)
                part = self._parts.gather(first, chosen % np.uint32(self._count))
            self._runtime.feed(*part)
            self._fed = first
        self._runtime.invoke(request.words, start=start, checked=True)
        return self._runtime.losses()

    def end_step(self) -> None:
        """Forgets the minibatch: a step has ended, or samples may have been replaced."""
        self._parts.forget()
        self._fed = None


def _parts_together(parts: int, most: int) -> int:
    """The parts of a minibatch that one invoke passes forward: as many as divide it, up to `most`."""
    return max(count for count in range(1, min(parts, most) + 1) if parts % count == 0)
