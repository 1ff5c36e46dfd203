# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Settings of a run as the control units take them: integers, fractions in units of 2^-16."""

from __future__ import annotations

from typing import Final

from ..core import CSettings, Rademacher, command_words
from .checks import SettingsError
from .settings import ESTIMATORS, SCHEDULES, Settings
from .tasks import WEIGHT_RULES, Weights

__all__ = ["layerwise_integers", "weight_command_words", "weight_integers"]


# Logs of runs that perturb no weights have had this distribution for them.
_UNUSED: Final = Rademacher(2)


def _q16(value: float) -> int:
    return round(value * 65536)


def _memory(weights: Weights) -> dict[str, int]:
    if not weights.momentum > 0:
        return {"chain": 0, "momentum": 0}
    return {"chain": weights.momentum_terms, "momentum": max(1, _q16(weights.momentum))}


def weight_command_words(settings: Settings) -> int:
    """Returns the words that a run of weight perturbation alone needs of the model's ``zo_command``."""
    weights = settings.weights
    own = CSettings(queries=weights.queries_of(()), sharpness=int(weights.sharpness), **_memory(weights))
    return command_words(own)


def _common(settings: Settings, rate: float, steps: int, samples: int, batch: int) -> CSettings:
    if settings.final_learning_rate > rate:
        raise SettingsError(
            f"final_learning_rate: expected at most {rate:.3g}, the rate chosen for {steps} steps, got "
            f"{settings.final_learning_rate:g}; give learning_rate, too"
        )
    return CSettings(
        run_seed=settings.seed,
        steps=steps,
        samples=samples,
        batch=batch,
        parts=settings.batch_size // batch,
        estimator=ESTIMATORS.index(settings.estimator),
        rule=WEIGHT_RULES.index(settings.weights.rule),
        distribution=(settings.weights.perturbation if settings.has(Weights) else _UNUSED).struct,
        rate=max(1, _q16(rate)),
        final_rate=_q16(settings.final_learning_rate),
        schedule=SCHEDULES.index(settings.schedule),
        warmup_steps=settings.warmup_steps,
        decay=_q16(settings.decay),
        decay_steps=settings.decay_steps,
    )


def weight_integers(
    settings: Settings, *, steps: int, samples: int, batch: int, weights: int, blocks: int
) -> CSettings:
    """Returns the settings of weight perturbation alone for ``zo_control``.

    Raises:
        SettingsError: the final rate is above the rate that is chosen for this number of steps.
    """
    rate, task = settings.chosen_rate(steps, max(blocks, 1)), settings.weights
    result = _common(settings, rate, steps, samples, batch)
    result.queries = task.queries_of(())
    result.clip = _q16(task.clip)
    result.gradient_norm = weights if task.gradient_norm else 0
    result.blocks = blocks if task.scope == "blocks" else 0
    result.sharpness = int(task.sharpness)
    for name, value in _memory(task).items():
        setattr(result, name, value)
    return result


def layerwise_integers(settings: Settings, *, steps: int, samples: int, batch: int) -> CSettings:
    """Returns the settings of a run that trains layers one by one for ``zo_node_run``.

    Raises:
        SettingsError: the final rate is above the rate that is chosen for this number of steps.
    """
    weights = settings.weights
    p_zero = [round(p * 256) for p in weights.stage_p_zero] or [weights.perturbation.p_zero] * 2
    begins = [max(1, round(share * steps)) for share in settings.stages]
    if len(begins) == 2 and begins[1] <= begins[0]:
        begins[1] = begins[0] + 1
    result = _common(settings, settings.chosen_rate(steps), steps, samples, batch)
    result.queries = 1
    result.clip = _q16(settings.step_clip)
    result.stage_steps = tuple(begins)
    result.stage_p_zero = tuple(p_zero)
    return result
