"""The features of the op pack that a run needs: the switches in ``ops/core/zo_features.h``."""

from __future__ import annotations

from ..converters.errors import ConversionError
from ..converters.initial_weights import step_multipliers
from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..core.loader import constants
from ..training.lowering import LoweredRun

# Parts of ops/core/papers that belong to one of the switches.
_PAPERS = {
    "ZO_WITH_COORDINATE": ("zo_coordinate",),
    "ZO_WITH_FLOOR_LOG2": ("zo_floor_log2_loss",),
    "ZO_WITH_BITS": ("zo_pseudo_stochastic", "zo_update_bits"),
}
_BACKWARD = ("ops/core/backward/", "ops/core/run/zo_node_backward.", "ops/device/zo_backward_tail.")
_HEADER = '#include "ops/core/zo_types.h"\n'


def features(model: Model, metadata: ZoMetadata, plan: LoweredRun) -> dict[str, bool]:
    """Returns whether a model and its run need each optional feature, by the macro's name."""
    s = plan.settings
    kind = int(s.distribution.kind)
    multipliers = {**step_multipliers(model), **plan.multipliers}
    loss = None if metadata.loss is None else metadata.loss.kind
    bits = s.rule == constants.ZO_RUN_BITS or plan.rules.exact_rule == constants.ZO_NODE_BITS
    return {
        **_of_layers(plan),
        "ZO_WITH_STEP_RULES": (not plan.tasks or any(t.perturbs_weights for t in plan.tasks))
        and s.rule not in (constants.ZO_STEP_NORMALIZED, constants.ZO_RUN_BITS),
        "ZO_WITH_ONE_SIDED": s.estimator == constants.ZO_ONE_SIDED,
        "ZO_WITH_8_BITS": metadata.update_bits == 8,
        "ZO_WITH_16_BITS": metadata.update_bits == 16,
        "ZO_WITH_CHECKS": False,
        # Programs with an interpreter of their own write them (examples/own_interpreter).
        "ZO_WITH_COMMANDS": not plan.tasks and len(metadata.segments) == 1,
        "ZO_WITH_SEGMENTS": len(metadata.segments) > 1,
        "ZO_WITH_SKIPS": any(segment.skips for segment in metadata.segments),
        "ZO_WITH_GAUSSIAN": kind == constants.ZO_GAUSSIAN,
        "ZO_WITH_SPARSE_UNIFORM": kind == constants.ZO_SPARSE_UNIFORM,
        "ZO_WITH_COORDINATE": kind == constants.ZO_COORDINATE,
        "ZO_WITH_MULTIPLIERS": any(m is not None for m in multipliers.values()) or bool(step_multipliers(model)),
        "ZO_WITH_BIASES": any(t.bias for t in metadata.trainable),
        "ZO_WITH_OTHER_LOSSES": loss not in ("cross_entropy", "floor_log2"),
        "ZO_WITH_LOSS_SUM": loss == "sum",
        "ZO_WITH_FLOOR_LOG2": loss == "floor_log2",
        "ZO_WITH_BITS": bits,
        "ZO_WITH_BACKWARD": plan.program is not None,
        "ZO_WITH_BLOCKS": s.blocks != 0,
        "ZO_WITH_SCHEDULES": s.schedule > constants.ZO_SCHEDULE_LINEAR or s.gradient_norm != 0,
    }


def _of_layers(plan: LoweredRun) -> dict[str, bool]:
    """Returns the features of layer-wise runs."""
    tasks = plan.tasks
    layers = [task.layer.struct for task in tasks if task.layer is not None]
    forms = {int(layer.form) for layer in layers}
    exact = [t for t in tasks if t.is_exact]
    rules = {plan.rules.rule} if len(exact) < len(layers) else set()
    rules |= {plan.rules.exact_rule} if exact else set()
    return {
        "ZO_WITH_WEIGHT_TASKS": any(task.perturbs_weights for task in tasks),
        "ZO_WITH_EXACT_TASKS": bool(exact),
        "ZO_WITH_NODE_RULES": not rules <= {constants.ZO_NODE_RMS, constants.ZO_RUN_RMS, constants.ZO_NODE_BITS},
        "ZO_WITH_ROWS": bool(tasks) and plan.rules.rows_most != 0,
        "ZO_WITH_MAX_POOL_NODES": constants.ZO_NODES_MAX_POOL in forms,
        "ZO_WITH_MEAN_NODES": constants.ZO_NODES_MEAN in forms,
        "ZO_WITH_DEPTHWISE": any(layer.depthwise for layer in layers),
    }


def unused_sources(wanted: dict[str, bool]) -> tuple[str, ...]:
    """Returns path prefixes of the op pack that a run does not use: published variants and exact tails."""
    unused = (files for switch, files in _PAPERS.items() if not wanted[switch])
    papers = tuple(f"ops/core/papers/{name}." for files in unused for name in files)
    return papers if wanted["ZO_WITH_BACKWARD"] else papers + _BACKWARD


def with_features(header: str, wanted: dict[str, bool]) -> str:
    """Sets the switches in the text of ``zo_features.h``, or raises ConversionError for a switch that it lacks."""
    known = [name for name in wanted if f"#ifndef {name}\n" in header]
    if len(known) != len(wanted) or header.count(_HEADER) != 1:
        raise ConversionError("zo_features.h is not the one that belongs to this package: install tflm_zo again")
    lines = [f"#define {name} {int(value)}" for name, value in wanted.items()]
    chosen = "\n".join(["", "/* What this folder's run needs. */", *lines, ""])
    return header.replace(_HEADER, _HEADER + chosen)
