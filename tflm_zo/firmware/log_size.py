# SPDX-License-Identifier: Apache-2.0
"""The bytes that the log of a run takes in a store (docs/file-formats.md)."""

from __future__ import annotations

from dataclasses import dataclass

from ..converters.metadata import ZoMetadata
from ..core import SEED_LOG_HEADER_BYTES, SNAPSHOT_RECORD_BYTES, SnapshotLogHeader, StepRecord
from .plan import BlockRunPlan, NodeRunPlan, RunPlan

__all__ = ["LogSize", "log_size_of"]


@dataclass(frozen=True)
class LogSize:
    """Bytes of the parts of a log, without padding.

    Attributes:
        header: bytes of the header.
        record: bytes of the record of a step.
        slot: bytes of the room for a snapshot of the weights; 0: the log has no snapshots.
    """

    header: int
    record: int
    slot: int = 0


def log_size_of(metadata: ZoMetadata, run: RunPlan) -> LogSize:
    """Returns the bytes of a run's log; where a block is chosen, the most that any block takes."""
    if isinstance(run, BlockRunPlan):
        sizes = [log_size_of(metadata, block.run) for block in run.blocks]
        return LogSize(max(s.header for s in sizes), SNAPSHOT_RECORD_BYTES, max(s.slot for s in sizes))
    if not isinstance(run, NodeRunPlan):
        return LogSize(SEED_LOG_HEADER_BYTES, StepRecord.size_of(run.value("queries")))
    tensors = {i for task in run.tasks for i in range(task.first_tensor, task.first_tensor + task.tensors)}
    slot = SnapshotLogHeader.slot_of(len(run.tasks), metadata.bytes_of(tensors))
    return LogSize(SnapshotLogHeader.size_of(len(run.tasks)), SNAPSHOT_RECORD_BYTES, slot)
