"""Settings of a training run."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ..converters.selections import Last
from ..core import Coordinate
from .checks import SettingsError, check_choice, check_integer, check_number
from .rules import Bits, Gradient, PerError, Rms
from .schedules import SCHEDULES, Linear, Schedule
from .tasks import Exact, Nodes, Task, Weights

Estimator = Literal["antithetic", "one-sided"]

#: In the order of the control units' numbers.
ESTIMATORS: Final[tuple[str, ...]] = get_args(Estimator)

# A step of weight perturbation moves the weights by noise almost entirely: over a run it adds up to a random
# walk of rate sqrt(steps m / queries) LSB, m the mean square of the schedule. Walks of 40 to 60 LSB were best
# on validation data (docs/results.md). Networks that bear less are measured (rate.py).
_WALK: Final = 46.0
_LARGEST_RATE: Final = 2.0
_GRADIENT_RATE: Final = 2.0
# Highest rate of layers one by one with a minibatch of `_USUAL_MINIBATCH` samples or more; of fewer samples in
# proportion to the root of their number. Then a number of samples leads as far, by noise and by gradients (whose
# share in a step is as small as the root is), however they are divided into minibatches.
_USUAL_RATE: Final = 1.0
# Highest rate where all gradients are exact, by rule `PerError`: steps are as long as the errors are large.
_RATE_OF_EXACT: Final = 0.6
_USUAL_MINIBATCH: Final = 32
# Steps of as many samples between two snapshots.
_SNAPSHOT_STEPS: Final = 100


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a training run: its tasks, and the settings that all tasks share.

    Without a learning rate, a run first measures how much noise the network bears (tflm_zo/training/rate.py). The
    highest rate is 1 LSB or, with a minibatch of B < 32 samples, sqrt(B / 32) LSB. Where all gradients are exact
    (rule `PerError`), it is 0.6 LSB. For weight perturbation with T steps (scope "blocks": steps of each block) it is

        sqrt(Q) min(2, 46 / sqrt(T m))    LSB; m: mean square of the schedule (linear: 1/3, which makes it
                                          min(2, 80 / sqrt(T)) with one query)
        2                                 LSB^2 per nat, rule `Gradient`, which is not measured: a cautious
                                          beginning, since the right rate depends on the network (LeNet-5:
                                          about 100)

    At that rate the noise of all steps adds up to a walk of 46 LSB, so a longer run takes smaller steps. `Coordinate`
    perturbations, which move one weight of each layer, are not measured and need a rate of tens of LSB.

    Attributes:
        tasks: tasks of the run, at most one of each kind; each trains a part of the model.
        batch_size: samples of a minibatch, a multiple of the model's batch. Node perturbation learns as much with 1, 4
            or 32 as with 8 (docs/results.md).
        learning_rate: rate at the first step, > 0; None measures it or chooses it. Rules `Rms`, `Standardized`: root
            mean square of a layer's step, LSB; `PerError`: that of a step where the root mean square of the output's
            errors is 1; `Normalized`, `Sign`: LSB per unit of z; `Gradient`: LSB^2 per nat.
        schedule: schedule of the rate, `Constant`, `Linear`, `Cosine` or `Step`. The command line has its
            name in lower case, and its fields as settings of the run.
        estimator: "antithetic": a query compares the losses on both sides of a point; "one-sided": a query
            compares the loss on one side with the loss at the point.
        step_clip: largest step of a weight by the tasks `Nodes` and `Exact`, LSB, > 0.
        stages: shares of the run, 0..1, rising, at which a second and a third stage begin, for settings that
            differ between stages.
        layers: `Last(n)`, or names of the layers that are trained, or patterns with * and ?; the others stay
            as they are. None trains all layers that the tasks can train.
        snapshot_every: steps between two snapshots of the weights in the log, where the log has snapshots; None: 100,
            and with a minibatch of less than 32 samples as many steps as use 3,200.
        sync_every: seconds between two syncs of the seed log to the disk, the most that a power failure can
            cost. 0 syncs after each step; None only at the end. A killed program loses no complete step.
        seed: seed of the random directions, of rounding and of the order of samples, 0..2^32-1.
        algorithm: name of the algorithm with these settings, or "".

    Raises:
        SettingsError: a setting is out of range, or would have no effect beside the others.
    """

    tasks: tuple[Task, ...] = (Nodes(),)
    batch_size: int = 8
    learning_rate: float | None = None
    schedule: Schedule = Linear()
    estimator: Estimator = "antithetic"
    step_clip: float = 4.0
    stages: tuple[float, ...] = ()
    layers: Last | str | tuple[str, ...] | None = None
    snapshot_every: int | None = None
    sync_every: float | None = 1.0
    seed: int = 0
    algorithm: str = ""

    def __post_init__(self) -> None:
        self._check_tasks()
        layerwise = self.is_layerwise
        self._check_weights(layerwise)
        if type(self.schedule) not in SCHEDULES.values():
            known = " or ".join(kind.__name__ for kind in SCHEDULES.values())
            raise SettingsError("schedule", f"be {known}", self.schedule)
        check_choice("estimator", self.estimator, ESTIMATORS)
        for name, low, high in (
            ("batch_size", 1, 2**20),
            *([] if self.snapshot_every is None else [("snapshot_every", 1, 2**31)]),
            ("seed", 0, 2**32 - 1),
        ):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), low, high))
        highest = 2.0**7 if layerwise and isinstance(self.nodes.rule, Rms) else 2.0**14
        for number, lower, upper in (
            *([] if self.learning_rate is None else [("learning_rate", 2.0**-16, highest)]),
            ("schedule.final", 0.0, self._usual_rate(highest)),
            ("step_clip", 2.0**-16, 2.0**8),
        ):
            value = self.schedule.last_rate if number == "schedule.final" else getattr(self, number)
            check_number(number, value, lower, upper)
        if self.sync_every is not None:
            check_number("sync_every", self.sync_every, 0.0, 2.0**32)
        self._check_stages()
        self._check_layers()
        for setting, reason in self.unused().items():
            if self._differs(setting):
                raise SettingsError(setting, f"be left out, since it would have no effect: {reason}")

    def _usual_rate(self, unknown: float) -> float:
        if self.learning_rate is None:
            return (self.weights.learning_rate or unknown) if self.perturbs_weights_alone else _USUAL_RATE
        return self.learning_rate

    def _check_tasks(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        for task in self.tasks:
            if type(task) not in (Nodes, Exact, Weights):
                raise SettingsError("tasks", "be of Nodes, Exact and Weights", task)
        if not self.tasks or len(self._by_kind) < len(self.tasks):
            raise SettingsError("tasks", "contain at least one task and at most one of each type", self.tasks)

    def _check_weights(self, layerwise: bool) -> None:
        weights = self.weights
        if layerwise:
            if weights.scope == "blocks":
                raise SettingsError(
                    "weights.scope", "be 'layers' beside other tasks and in rules of bits", weights.scope
                )
            if weights.learning_rate is not None:
                rate = self._usual_rate(0)
                check_number("weights.learning_rate", weights.learning_rate, rate / 65536, 255 * rate)
        elif isinstance(weights.queries, dict):
            raise SettingsError(
                "weights.queries", "be one number where all layers are perturbed together", weights.queries
            )

    def _check_stages(self) -> None:
        stages, shares = tuple(self.stages), self.weights.stage_p_zero
        if len(stages) > 2 or list(stages) != sorted(set(stages)):
            raise SettingsError("stages", "be at most two rising shares of the run", stages)
        for share in stages:
            check_number("stages", share, 0.0, 1.0)
        if shares and len(shares) != len(stages):
            raise SettingsError("stage_p_zero", f"be one share of zeros for each of {len(stages)} later stages", shares)

    def _check_layers(self) -> None:
        if self.layers is None or isinstance(self.layers, Last):
            return
        names = (self.layers,) if isinstance(self.layers, str) else tuple(self.layers)
        object.__setattr__(self, "layers", names)
        if not all(isinstance(name, str) for name in self.layers):
            raise SettingsError("layers", "be names of layers or patterns", self.layers)
        if not self.layers:
            raise SettingsError("layers", "name at least one layer, or be None for all", self.layers)

    def _differs(self, setting: str) -> bool:
        """Returns whether a setting, named as by `unused`, differs from its default."""
        owner, _, name = setting.rpartition(".")
        own: Settings | Task = getattr(self, owner) if owner else self
        fields = {f.name: f.default for f in dataclasses.fields(own)}
        if name in fields:
            return bool(getattr(own, name) != fields[name])
        return bool(getattr(self.weights.rule, name, False))

    # --- tasks ----------------------------------------------------------------------------------------------

    @property
    def _by_kind(self) -> dict[type[Task], Any]:
        return {type(task): task for task in self.tasks}

    @property
    def nodes(self) -> Nodes:
        """The run's task `Nodes`, or one with the defaults."""
        return self._by_kind.get(Nodes) or Nodes()

    @property
    def exact(self) -> Exact:
        """The run's task `Exact`, or one with the defaults."""
        return self._by_kind.get(Exact) or Exact()

    @property
    def weights(self) -> Weights:
        """The run's task `Weights`, or one with the defaults."""
        return self._by_kind.get(Weights) or Weights()

    def has(self, kind: type[Task]) -> bool:
        """Returns whether the run has a task of a kind."""
        return kind in self._by_kind

    @property
    def is_layerwise(self) -> bool:
        """True if layers are trained one by one and the log has snapshots of the weights; False if the log has seeds,
        from which a replay computes the weights.
        """
        return not self.perturbs_weights_alone or self.weights.scope == "layers" or isinstance(self.weights.rule, Bits)

    def unused(self) -> dict[str, str]:
        """Returns settings without effect, each with the reason, under their full names."""
        of_bits = self.has(Exact) and isinstance(self.exact.rule, Bits)
        steps = self.has(Nodes) or (self.has(Exact) and not of_bits)
        weights = self.weights if self.has(Weights) else None
        rated = steps or (weights is not None and not isinstance(weights.rule, Bits))
        layerwise, plain = self.is_layerwise, weights and isinstance(weights.rule, Gradient)
        rows = [
            (
                of_bits or (weights and weights.stage_p_zero),
                "nothing changes between them without stage_p_zero or rule bits of exact gradients",
                ("stages",),
            ),
            (self.has(Nodes) or weights, "exact gradients make no query", ("estimator",)),
            (steps, "no step of a weight is clipped to it", ("step_clip",)),
            (rated, "rules of bits have no rate", ("learning_rate", "schedule")),
            (layerwise, "the log of weight perturbation alone has no snapshots", ("snapshot_every",)),
            (not layerwise, "snapshots are brought to the disk when they are written", ("sync_every",)),
        ]
        if weights is not None:
            rate, aware = "weights.learning_rate", "weights.quantization_aware"
            rows += [
                (layerwise and not isinstance(weights.rule, Bits), "the run has no other rate", (rate,)),
                (layerwise, "weights that are perturbed together have one rate", (aware,)),
                (
                    plain or not layerwise,
                    "where layers are trained one by one, only rule gradient has it",
                    ("weights.gradient_norm",),
                ),
            ]
        return {name: why for used, why, names in rows if not used for name in names}

    # --- derived values -------------------------------------------------------------------------------------

    @property
    def reach(self) -> int:
        """The largest perturbation of a weight, LSB: the headroom that the run needs of the model."""
        return self.weights.reach if self.has(Weights) else 0

    def steps_per_epoch(self, samples: int) -> int:
        """Returns the number of steps of a pass over so many samples."""
        return -(-samples // self.batch_size)

    def parts(self, batch: int) -> int:
        """Returns the number of parts of a minibatch, one for each invoke of a model of so many samples."""
        return self.batch_size // batch

    def as_many_samples(self, steps: int) -> int:
        """Returns the number of steps that use as many samples as `steps` of a minibatch of 32, at least `steps`."""
        return -(-steps * _USUAL_MINIBATCH // min(self.batch_size, _USUAL_MINIBATCH))

    @property
    def steps_between_snapshots(self) -> int:
        """Steps between two snapshots of the log."""
        # Flash wears out: smaller minibatches write no more of it for the same samples.
        return self.as_many_samples(_SNAPSHOT_STEPS) if self.snapshot_every is None else self.snapshot_every

    def chosen_rate(self, steps: int, blocks: int = 1) -> float:
        """Returns the rate at the first step of a run: `learning_rate`, or the highest that a measurement gives."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.tasks == (self.exact,) and isinstance(self.exact.rule, PerError):
            return _RATE_OF_EXACT
        if not self.perturbs_weights_alone:
            samples = _USUAL_MINIBATCH if "learning_rate" in self.unused() else min(self.batch_size, _USUAL_MINIBATCH)
            return _USUAL_RATE * math.sqrt(samples / _USUAL_MINIBATCH)
        if self.weights.learning_rate is not None:  # of single layers
            return self.weights.learning_rate
        if isinstance(self.weights.rule, Gradient):
            return _GRADIENT_RATE
        own = steps / blocks if self.weights.scope == "blocks" else steps
        walk = _WALK / math.sqrt(own * self.schedule.mean_square(steps))
        return math.sqrt(self.weights.queries_of(())) * min(_LARGEST_RATE, walk)

    def check_final_rate(self, rate: float, which: str) -> None:
        """Raises SettingsError if the final rate is above the rate at the first step, which was measured or chosen."""
        last = self.schedule.last_rate
        if last > rate:
            problem, also = f"be at most {rate:.3g}, the rate {which}", {"learning_rate": ...}
            raise SettingsError("schedule.final", problem, last, "Also set", give=also)

    @property
    def share_of_weights(self) -> float:
        """Rate of the task `Weights` relative to the run's."""
        own = self.weights.learning_rate
        return 1.0 if own is None else own / self.chosen_rate(1)

    @property
    def perturbs_weights_alone(self) -> bool:
        """True if `Weights` is the only task."""
        return len(self.tasks) == 1 and self.has(Weights)

    @property
    def measures_rate(self) -> bool:
        """True if a run measures its learning rate."""
        if self.learning_rate is not None or "learning_rate" in self.unused():
            return False
        if self.perturbs_weights_alone:
            own = self.weights
            told = own.learning_rate is not None or isinstance(own.rule, Gradient)
            return not told and not isinstance(own.perturbation, Coordinate)
        return not self.has(Nodes) or isinstance(self.nodes.rule, Rms)
