"""The lowering of a run: settings and model become the integers of the C core."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, ZoMetadata, step_multipliers
from ..converters.segments import entering_tensor
from ..core import BackwardProgram, BackwardStep, CSettings, NodeRules, Rademacher, TaskEntry, command_words
from .costs import SampleCosts, block_segments, first_segment, step_integers
from .gains import channel_scales, task_gain
from .plan import LoweredTask, backward_steps, node_layer, plan_tasks, recorded_tasks
from .rules import NODE_RULES, WEIGHT_RULES, Bits, Gradient, Normalized, PerError, Rms, Standardized
from .schedules import SCHEDULES, Step
from .settings import Settings
from .tasks import Exact, Weights


@dataclasses.dataclass(frozen=True)
class StepMemory:
    """How a device saves memory in a step with exact gradients and one sample. Does not affect results."""

    # True if errors share the memory of the arena's activations, so that a program cannot infer during a step
    shares_arena: bool = False
    # segments whose input is not kept but computed again, in rising order
    recomputed: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class LoweredRun:
    """A lowered run. The trainer executes it, firmware stores it in tables, plans and reports read it."""

    settings: CSettings  # ``zo_control_settings`` of the run
    tasks: tuple[LoweredTask, ...] = ()  # tasks of a layer-wise run, in order; none for weight perturbation
    rules: NodeRules = NodeRules()  # rules of a layer-wise run
    # first segment with a trained layer in a layer-wise run
    first_segment: int = 0
    # backward program of the exact tail; None without a tail
    program: BackwardProgram | None = None
    interval: int = 0  # steps between snapshots of a layer-wise run's log
    # factors of the update by tensor name, int32 [channels] Q31, if they differ from the model's; None: 1
    multipliers: Mapping[str, NDArray[np.int32] | None] = dataclasses.field(default_factory=dict)
    block_segments: tuple[int, ...] = ()  # first segment of each block of weight perturbation
    memory: StepMemory = StepMemory()  # how a device saves memory
    # names and values of settings, for comments in generated files
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def minibatch(self) -> int:
        """Samples of a minibatch."""
        return int(self.settings.batch) * int(self.settings.parts)

    @property
    def tensors(self) -> list[int]:
        """Numbers of the trainable tensors of all tasks, in the order of snapshots."""
        return [i for task in self.tasks for i in task.tensors]


# Logs of runs that perturb no weights have had this distribution for them.
_UNUSED: Final = Rademacher(2)


# The control unit's numbers of the rules of exact tasks.
_EXACT_RULES: Final = {PerError: 0, Bits: 2, Standardized: 3, Rms: 4}


def _q16(value: float) -> int:
    return round(value * 65536)


def weight_command_words(settings: Settings) -> int:
    """Returns the number of words that a run of weight perturbation needs in the model's ``zo_command``."""
    return command_words(CSettings(queries=settings.weights.queries_of(())))


def _integers(
    settings: Settings, rate: float, steps: int, samples: int, batch: int, blocks: int = 0, **own: Any
) -> CSettings:
    settings.check_final_rate(rate, f"chosen for {steps} steps")
    # A log of another schedule has the default step, too.
    step = settings.schedule if isinstance(settings.schedule, Step) else Step()
    values = {
        "run_seed": settings.seed,
        "steps": steps,
        "samples": samples,
        "rule": list(WEIGHT_RULES.values()).index(type(settings.weights.rule)),
        "distribution": (settings.weights.perturbation if settings.has(Weights) else _UNUSED).struct,
        "rate": max(1, _q16(rate)),
        "final_rate": _q16(settings.schedule.last_rate),
        "schedule": list(SCHEDULES.values()).index(type(settings.schedule)),
        "warmup_steps": settings.schedule.warmup,
        "decay": _q16(step.decay),
        "decay_steps": step.every,
    }
    result = step_integers(settings, batch, blocks)
    for name, value in (values | own).items():
        setattr(result, name, value)
    return result


def _weight_clip(task: Weights) -> int:
    # A log of a rule without clip has the default clip, too.
    return _q16(getattr(task.rule, "clip", Normalized().clip))


def weight_integers(
    settings: Settings, *, steps: int, samples: int, batch: int, weights: int, blocks: int
) -> CSettings:
    """Lowers settings of weight perturbation for ``zo_control``. SettingsError: the final rate is above the first."""
    rate, task = settings.chosen_rate(steps, max(blocks, 1)), settings.weights
    norm = weights if getattr(task.rule, "gradient_norm", False) else 0
    own = {"clip": _weight_clip(task), "gradient_norm": norm}
    return _integers(settings, rate, steps, samples, batch, blocks, **own)


def layerwise_integers(settings: Settings, *, steps: int, samples: int, batch: int) -> CSettings:
    """Lowers the settings of a layer-wise run for ``zo_node_run``; errors are those of `weight_integers`."""
    weights = settings.weights
    p_zero = [round(p * 256) for p in weights.stage_p_zero] or [weights.perturbation.p_zero] * 2
    begins = [max(1, round(share * steps)) for share in settings.stages]
    if len(begins) == 2 and begins[1] <= begins[0]:
        begins[1] = begins[0] + 1
    own = {"queries": 1, "clip": _q16(settings.step_clip), "stage_steps": (*begins,), "stage_p_zero": (*p_zero,)}
    return _integers(settings, settings.chosen_rate(steps), steps, samples, batch, 0, **own)


def _mantissas(factors: NDArray[np.float64]) -> tuple[NDArray[np.int16], int]:
    """Returns factors as integers within +-32767 in units of 2^(exponent - 15), and the exponent."""
    exponent = max(-255, min(255, math.frexp(float(np.abs(factors).max()))[1]))
    return np.clip(np.rint(factors * 2.0 ** (15 - exponent)), -32767, 32767).astype(np.int16), exponent


def _backward_program(tasks: Sequence[LoweredTask], model: Model, metadata: ZoMetadata) -> BackwardProgram | None:
    """Returns the backward program of the tasks of an exact tail; None if they need none."""
    tail, kept = metadata.tail, backward_steps(tasks, metadata)
    exact = {t.nodes.trainable: i for i, t in enumerate(tasks) if t.is_exact and t.nodes is not None}
    if tail is None or not exact:
        return None
    of_tasks = zip(tail.layers, tail.of_layers, strict=True)
    fields = {exact[n.trainable]: f for n, f in of_tasks if n.trainable in exact}
    # Errors go no further back than to the first layer that is trained.
    used = sorted({0, *fields.values(), *(field for s in kept for field in (s.source, s.target))})
    number = {field: i for i, field in enumerate(used)}
    steps = []
    for step in kept:
        layer, tensor, factors = None, None, np.array(step.factors)
        if step.layer is not None:
            nodes = tail.layers[step.layer]
            layer, tensor = node_layer(nodes), nodes.trainable
            scales = channel_scales(model, metadata, tensor)
            factors = np.broadcast_to(scales, nodes.geometry["out_c"])
        mantissas, exponent = _mantissas(factors) if factors.size else (None, 0)
        own = step.kind, number[step.source], number[step.target], step.numbers
        steps.append(BackwardStep(*own, layer, mantissas, exponent, tensor, step.segment))
    return BackwardProgram(
        tuple(steps), tuple(tail.fields[f].count for f in used), {i: number[f] for i, f in fields.items()}
    )


def _rules(settings: Settings) -> NodeRules:
    all_rows = settings.exact.rows == (1.0, 1.0)
    least, most = (0 if all_rows else round(share * 65535) for share in settings.exact.rows)
    return NodeRules(
        weight_clip=_weight_clip(settings.weights),
        rule=list(NODE_RULES.values()).index(type(settings.nodes.rule)),
        exact_rule=_EXACT_RULES[type(settings.exact.rule)] if settings.has(Exact) else 0,
        exact_bits=getattr(settings.exact.rule, "bits", (5, 4, 3)),
        weight_bits=getattr(settings.weights.rule, "bits", 1),
        rows_least=least,
        rows_most=most,
    )


def _placed(task: LoweredTask, model: Model, metadata: ZoMetadata) -> LoweredTask:
    """Returns a task with the size of its input activation, if that enters a segment behind the first one."""
    if not task.perturbs_weights or not task.start_segment:
        return task
    entering = entering_tensor(model, metadata, task.start_segment)
    return dataclasses.replace(task, boundary_bytes=entering.size // metadata.batch)


def lower(model: Model, metadata: ZoMetadata, settings: Settings, *, steps: int, samples: int) -> LoweredRun:
    """Lowers a run of settings that `check_model` has checked to the integers of the C core. Raises SettingsError if
    the settings do not fit the model.
    """
    batch = metadata.batch
    planned = plan_tasks(settings, metadata, SampleCosts(model, metadata).suffix)
    if not planned:
        weights = sum(t.size for t in metadata.trainable)
        sizes = {"batch": batch, "weights": weights, "blocks": len(metadata.blocks)}
        numbers = weight_integers(settings, steps=steps, samples=samples, **sizes)
        return LoweredRun(numbers, block_segments=tuple(block_segments(metadata)))
    own = step_multipliers(model)
    multipliers = {(t := metadata.trainable[i]).name: own.get(t.name) for p in planned for i in p.tensors}
    numbers, tasks = layerwise_integers(settings, steps=steps, samples=samples, batch=batch), []
    for task in planned:
        task = _placed(task, model, metadata)
        rule = settings.weights.rule if task.perturbs_weights else settings.nodes.rule
        if not task.is_exact and isinstance(rule, Gradient):
            found = task_gain(task, settings, batch * int(numbers.parts), model, metadata)
            task = dataclasses.replace(task, gain=found.gain)
            names = (metadata.trainable[i].name for i in task.tensors)
            multipliers |= dict(zip(names, found.multipliers, strict=True))
        tasks.append(task)
    return LoweredRun(
        numbers,
        tuple(tasks),
        _rules(settings),
        first_segment(tasks),
        _backward_program(tasks, model, metadata),
        settings.steps_between_snapshots,
        multipliers,
    )


def lower_recorded(model: Model, metadata: ZoMetadata, settings: CSettings, entries: Sequence[TaskEntry]) -> LoweredRun:
    """Lowers a run from its log, whose model may have another batch. The factors of updates are missing."""
    minibatch = int(settings.batch) * int(settings.parts)
    settings = CSettings.from_buffer_copy(settings)
    settings.batch, settings.parts = metadata.batch, minibatch // metadata.batch
    if not entries:
        return LoweredRun(settings, block_segments=tuple(block_segments(metadata)))
    tasks = tuple(_placed(task, model, metadata) for task in recorded_tasks(entries, metadata))
    return LoweredRun(settings, tasks, program=_backward_program(tasks, model, metadata))
