# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The C core (``ops/core``), from Python: every function that is called through ctypes.

Nothing is computed here but constants that a device gets prepared: arrays go to the functions that the
runtimes' custom ops and the firmware call.
"""

from __future__ import annotations

from .arguments import QUERY_DTYPE
from .backward import Backward, BackwardProgram, BackwardStep, ErrorField
from .block_control import BlockControl
from .command import (
    ALL_BLOCKS,
    Command,
    command_check,
    without_checksum,
    without_instructions,
    without_losses,
)
from .control import (
    MAX_CHAIN,
    MAX_QUERIES,
    Control,
    Request,
    StepReport,
    command_words,
    distribution_at,
    samples_in_order,
    write_items,
)
from .declarations import CSettings, Struct, Tensor
from .directory import Directory
from .distribution import (
    Coordinate,
    Distribution,
    Gaussian,
    Rademacher,
    SparseUniform,
    query_seed,
    query_seeds,
)
from .loader import NativeError, Status, installed, library, library_path
from .measurement import MEASUREMENT_BYTES, Measurement, best_of, is_due
from .model_loss import LogitScale, ModelLoss
from .node_control import NodeAction, NodeControl, NodeRequest
from .node_layer import NodeForm, NodeLayer, NodeState
from .node_settings import NODE_HEAD, NODE_TAIL, NodeRules, NodeTask, TaskKind
from .seed_log_format import (
    FINGERPRINT_BYTES,
    SEED_LOG_HEADER_BYTES,
    STORE_UNIT_MOST,
    UNIT_AT,
    SeedLogHeader,
    StepRecord,
)
from .snapshot_log_format import (
    BEST_SLOT,
    SNAPSHOT_RECORD_BYTES,
    Snapshot,
    SnapshotLogHeader,
    TaskEntry,
    write_step_record,
)
from .tensor import checksum, fnv1a, make_tensor, replay, weight_tensors

__all__ = [
    "Coordinate",
    "Gaussian",
    "Rademacher",
    "SparseUniform",
    "ALL_BLOCKS",
    "BEST_SLOT",
    "Backward",
    "BackwardProgram",
    "BackwardStep",
    "BlockControl",
    "CSettings",
    "Command",
    "Control",
    "Directory",
    "Distribution",
    "ErrorField",
    "FINGERPRINT_BYTES",
    "LogitScale",
    "ModelLoss",
    "MAX_CHAIN",
    "MAX_QUERIES",
    "MEASUREMENT_BYTES",
    "Measurement",
    "NODE_HEAD",
    "NODE_TAIL",
    "NativeError",
    "NodeAction",
    "NodeControl",
    "NodeForm",
    "NodeLayer",
    "NodeRequest",
    "NodeRules",
    "NodeState",
    "NodeTask",
    "QUERY_DTYPE",
    "Request",
    "SEED_LOG_HEADER_BYTES",
    "SNAPSHOT_RECORD_BYTES",
    "STORE_UNIT_MOST",
    "SeedLogHeader",
    "Snapshot",
    "SnapshotLogHeader",
    "Status",
    "StepReport",
    "Struct",
    "StepRecord",
    "TaskEntry",
    "TaskKind",
    "Tensor",
    "UNIT_AT",
    "best_of",
    "checksum",
    "command_check",
    "without_checksum",
    "without_instructions",
    "without_losses",
    "command_words",
    "distribution_at",
    "fnv1a",
    "installed",
    "is_due",
    "library",
    "library_path",
    "make_tensor",
    "query_seed",
    "query_seeds",
    "replay",
    "samples_in_order",
    "weight_tensors",
    "write_items",
    "write_step_record",
]
