# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The choice of a block of layers (``ops/core/run/zo_block_choice.h``), from Python.

Nothing is decided here: the state machine is the one that firmware runs.
"""

from __future__ import annotations

from .loader import call, constants, structs

__all__ = ["BlockControl"]


class BlockControl:
    """The state machine (``zo_block_choice``).

    Args:
        blocks: number of blocks, 1..2^32-1.

    Raises:
        NativeError: the number of blocks is 0.
    """

    def __init__(self, blocks: int) -> None:
        self._choice, self._request = structs.zo_block_choice(), structs.zo_block_request()
        call("zo_block_choice_init", self._choice, blocks)

    def next(self) -> int | None:
        """The block to probe next; None: all are done, and `best` counts."""
        call("zo_block_choice_next", self._choice, self._request)
        probes = self._request.action == constants.ZO_BLOCK_PROBE
        return int(self._request.block) if probes else None

    def report(self, score: int) -> None:
        """Takes the score of the probe in progress, -2^63..2^63-1, larger is better.

        Raises:
            NativeError: every block has its loss already.
        """
        call("zo_block_choice_report", self._choice, score)

    @property
    def best(self) -> int:
        """The best block of the probes done."""
        return int(self._choice.best)
