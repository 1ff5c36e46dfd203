"""Bindings to the C core (``ops/core``) by ctypes.

Python computes only constants that a device receives precomputed. All other arithmetic is in the C functions, which the
runtimes' custom ops and the firmware share.
"""

from __future__ import annotations

from .arguments import QUERY_DTYPE
from .backward import BackwardProgram, BackwardStep
from .command import (
    FLAG_CHECKSUM,
    FLAG_LOSS,
    Command,
    command_check,
    without_flag,
    without_instructions,
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
from .distribution import Coordinate, Distribution, Gaussian, Rademacher, SparseUniform, query_seed, query_seeds
from .loader import CSettings, NativeError, Status, Struct, installed, library, library_path
from .log_formats import (
    BEST_SLOT,
    FINGERPRINT_BYTES,
    MEASUREMENT_BYTES,
    SEED_LOG_HEADER_BYTES,
    SNAPSHOT_RECORD_BYTES,
    STORE_UNIT_MOST,
    UNIT_AT,
    Measurement,
    SeedLogHeader,
    Snapshot,
    SnapshotLogHeader,
    StepRecord,
    TaskEntry,
    best_of,
    is_due,
    write_step_record,
)
from .node_control import NodeAction, NodeControl, NodeRequest
from .node_layer import (
    ModelLoss,
    NodeForm,
    NodeLayer,
    NodeRules,
    NodeState,
    NodeTask,
    TaskKind,
    logit_scale,
)
from .tensor import Directory, checksum, fnv1a, make_tensor, replay, weight_tensors

__all__ = [
    "Coordinate",
    "Gaussian",
    "Rademacher",
    "SparseUniform",
    "BEST_SLOT",
    "BackwardProgram",
    "BackwardStep",
    "CSettings",
    "Command",
    "Control",
    "Directory",
    "Distribution",
    "FINGERPRINT_BYTES",
    "FLAG_CHECKSUM",
    "FLAG_LOSS",
    "ModelLoss",
    "MAX_CHAIN",
    "MAX_QUERIES",
    "MEASUREMENT_BYTES",
    "Measurement",
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
    "UNIT_AT",
    "best_of",
    "checksum",
    "command_check",
    "without_flag",
    "without_instructions",
    "command_words",
    "distribution_at",
    "fnv1a",
    "installed",
    "is_due",
    "library",
    "library_path",
    "logit_scale",
    "make_tensor",
    "query_seed",
    "query_seeds",
    "replay",
    "samples_in_order",
    "weight_tensors",
    "write_items",
    "write_step_record",
]
