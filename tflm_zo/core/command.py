"""Commands of an invoke: the words of ``zo_command``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .arguments import Queries, address, pairs, signed, step_pairs, unsigned
from .distribution import Distribution
from .loader import Struct, call, constants, structs

ALL_BLOCKS: Final[int] = constants.ZO_ALL_BLOCKS
"""Selects every block in an instruction of a `Command`."""
FLAG_CHECKSUM: Final[int] = constants.ZO_FLAG_CHECKSUM
FLAG_LOSS: Final[int] = constants.ZO_FLAG_LOSS


def make_terms(table: NDArray[np.void]) -> Struct:
    """Creates the terms of a perturbation. The caller must keep the table alive."""
    return structs.zo_perturb_terms(table.ctypes.data, len(table))


def restoration(queries: NDArray[np.void], restore_k: int, restore: Queries) -> NDArray[np.void]:
    """Returns the terms before a step: `restore`, or `restore_k` times the direction of the last query."""
    if not signed("restore_k", restore_k) or len(queries) == 0:
        return pairs("restore", restore, "k")
    if len(restore):
        raise ValueError("`restore` must be left out if `restore_k` is given.")
    last: NDArray[np.void] = queries[-1:].copy()
    last["coefficient"] = restore_k
    return last


def _block(block: int | None) -> int:
    return ALL_BLOCKS if block is None else unsigned("block", block)


class Command:
    """Writes the ``zo_command`` tensor: the instructions of the weight ops for one invoke.

    Add instructions in the order in which the graph executes them: restore, replay, update, perturb. A `block` of None
    selects every block. An instruction that does not fit raises `NativeError` and leaves the command unchanged. Methods
    return the command:

        Command(45).update(queries, distribution, restore_k=1).perturb([(seed, 1)], distribution).words

    Args:
        capacity: number of words of the tensor.
        loss: True to compute losses in this invoke.
        checksum: True to return the checksum of the weights in ``zo_status``.
    """

    def __init__(self, capacity: int, *, loss: bool = True, checksum: bool = False) -> None:
        #: int32 [capacity], zero after the last instruction: the tensor's content.
        self.words: NDArray[np.int32] = np.zeros(unsigned("capacity", capacity), np.int32)
        self._writer = structs.zo_command_writer()
        flags = constants.ZO_FLAG_LOSS * loss | constants.ZO_FLAG_CHECKSUM * checksum
        call("zo_command_begin", self._writer, self.words.ctypes.data, self.words.size, flags)

    @property
    def length(self) -> int:
        """Number of words in use."""
        return int(self._writer.length)

    def restore(self, block: int | None = None) -> Command:
        """Restores the initial weights."""
        call("zo_command_restore", self._writer, _block(block))
        return self

    def replay(
        self, steps: Sequence[Queries] | NDArray[Any], distribution: Distribution, block: int | None = None
    ) -> Command:
        """Applies recorded steps, see `core.replay`."""
        table, queries, count = step_pairs(steps)
        call("zo_command_replay", self._writer, _block(block), distribution.struct, table.ctypes.data, queries, count)
        return self

    def update(
        self,
        queries: Queries,
        distribution: Distribution,
        restore_k: int = 0,
        block: int | None = None,
        *,
        restore: Queries = (),
    ) -> Command:
        """Applies one step, see ``zo_update_s8``."""
        table = pairs("queries", queries, "coefficient")
        before = restoration(table, restore_k, restore)
        arguments = make_terms(before), table.ctypes.data, len(table)
        call("zo_command_update", self._writer, _block(block), distribution.struct, *arguments)
        return self

    def perturb(self, seed_k_pairs: Queries, distribution: Distribution, block: int | None = None) -> Command:
        """Adds perturbations, see ``zo_perturb_s8``."""
        table = pairs("seed_k_pairs", seed_k_pairs, "k")
        call("zo_command_perturb", self._writer, _block(block), distribution.struct, make_terms(table))
        return self


def command_check(words: NDArray[np.int32], *, headroom: int, max_queries: int, blocks: int) -> None:
    """Raises NativeError if a command, int32 [capacity], exceeds a model's limits."""
    limits = structs.zo_limits(
        unsigned("headroom", headroom), unsigned("max_queries", max_queries), unsigned("blocks", blocks)
    )
    call("zo_command_check", address("words", words, np.int32), unsigned("words.size", words.size), limits)


def without_flag(words: NDArray[np.int32], flag: int) -> NDArray[np.int32]:
    """Returns the words of the same command without `FLAG_CHECKSUM` or `FLAG_LOSS`."""
    quiet: NDArray[np.int32] = words.copy()
    quiet[0] &= ~flag
    return quiet


def continued(words: NDArray[np.int32]) -> NDArray[np.int32]:
    """Returns the words of a command without instructions that continues from the states of the last invoke."""
    idle = without_instructions(words)
    idle[0] |= constants.ZO_COMMAND_MAGIC | constants.ZO_FLAG_CONTINUE
    return idle


def without_instructions(words: NDArray[np.int32]) -> NDArray[np.int32]:
    """Returns the words of the same command without instructions, which changes no weight."""
    idle = np.zeros_like(words)
    idle[0] = words[0]
    return idle
