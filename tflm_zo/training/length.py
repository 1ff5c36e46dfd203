"""The length of a run, from epochs, steps or a budget."""

from __future__ import annotations

from typing import Final

from ..converters import Model, ZoMetadata
from ..io.errors import SettingsError
from .costs import run_costs
from .settings import Settings

# Steps of a run of weight perturbation that a budget ends, at most. The longest one that was measured to be
# worth its steps has 39,062 (LeNet-5).
_MOST_STEPS: Final = 50_000
# Steps of other runs that a budget ends, at most: so many passes over the samples or, where that is more, so
# many steps of 32 samples. More of them overfit (docs/results.md, "Length of runs").
_MOST_PASSES: Final = 60
_LEAST_OF_MOST: Final = 2000
_LEAST_OF_MOST_FOR_CAREFUL: Final = 600

# Epochs and least steps, of 32 samples where layers are trained one by one, of a run whose length nobody gives.
_USUAL_EPOCHS: Final = 10

# Length of a run whose way to train is chosen, in samples.
_CHOSEN_PASSES: Final = 28
_LEAST_CHOSEN: Final = 1800
_MOST_CHOSEN: Final = 7000
_MORE_BY_WEIGHTS: Final = 18  # 2,000 steps of 64 in place of 7,000 of one sample
_USUAL_STEPS: Final = 300


def chosen_steps(settings: Settings, samples: int) -> int:
    """Returns the default number of steps of a run whose way to train is chosen: those of 28 passes over the samples,
    but of 1,800 to 7,000 samples, or of 3.5 passes over more than 2,000. By weight perturbation it has 18 times as
    many.
    """
    length = min(max(_CHOSEN_PASSES * samples, _LEAST_CHOSEN), max(_MOST_CHOSEN, 3.5 * samples))
    if settings.perturbs_weights_alone:
        length *= _MORE_BY_WEIGHTS
    return max(1, round(length / settings.batch_size))


def usual_epochs(settings: Settings, samples: int) -> int:
    """Returns the default number of epochs: 10, or the number that takes 300 steps, or as many samples as 300 steps of
    a minibatch of 32, if that is larger.
    """
    steps = _USUAL_STEPS if settings.perturbs_weights_alone else settings.as_many_samples(_USUAL_STEPS)
    return max(_USUAL_EPOCHS, -(-steps // settings.steps_per_epoch(samples)))


def most_budget_steps(settings: Settings, samples: int, careful: bool = False) -> int:
    """Returns the largest number of steps of a budget; `careful`: the measured rate is below the usual one."""
    if settings.perturbs_weights_alone:
        return _MOST_STEPS
    least = _LEAST_OF_MOST_FOR_CAREFUL if careful else _LEAST_OF_MOST
    return max(settings.as_many_samples(least), _MOST_PASSES * settings.steps_per_epoch(samples))


def check_length(epochs: int | None, steps: int | None, budget: float | None) -> None:
    """Raises SettingsError if more than one of epochs, steps and budget is given."""
    given = {"epochs": epochs, "steps": steps, "budget": budget}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise SettingsError(names[0], "be the only length of the run", fix="Remove", give=dict.fromkeys(names[1:], ...))


def planned_steps(settings: Settings, samples: int, epochs: int | None, steps: int | None) -> int:
    """Returns the number of steps of a run of `epochs` passes over the samples, 1 if neither number is given, or of
    `steps` steps; raises SettingsError for a number out of range.
    """
    for name, number in (("epochs", epochs), ("steps", steps)):
        if number is not None and number < 1:
            raise SettingsError(name, "be at least 1", number)
    total = (1 if epochs is None else epochs) * settings.steps_per_epoch(samples) if steps is None else steps
    # Positions in the order of samples have 32 bits; this is (2^32 - 1) // minibatch.
    longest = settings.steps_per_epoch(2**32) - 1
    if total > longest:
        raise SettingsError("steps", f"be at most {longest}", total)
    return total


def affordable_steps(settings: Settings, model: Model, metadata: ZoMetadata, budget: float, samples: int) -> int:
    """Returns the number of steps that a budget of forward equivalents pays for. Raises SettingsError if the budget is
    out of range or less than a step costs; the message names that cost.
    """
    if not 0 < budget < 2**63:
        raise SettingsError("budget", "be forward equivalents above 0 and below 2^63", budget)
    costs = run_costs(settings, model, metadata)
    total = costs.affordable(budget, samples)
    if total < 1:
        raise SettingsError(
            "budget", f"be at least {costs.until(1, samples):.0f} forward equivalents, the cost of a step", budget
        )
    return total
