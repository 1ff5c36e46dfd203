"""The main job from one end to the other, on real data, and the table of its results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from ..converters import Model, inject, read_metadata
from ..firmware import generate_firmware
from ..firmware.arena import arenas_of
from ..firmware.planning import plan_run
from ..logs import replay_log
from ..planner.instructions import Instructions
from ..runtime import available
from ..training import ALGORITHMS, Callback, Trainer, inject_settings
from .scenarios import SCENARIOS, Scenario

COMPARED: Final = {"node": "node perturbation", "exact": "exact gradients", "weight": "weight perturbation"}
"""The algorithms that the demo compares, the default first, with their titles."""
_DEFAULT: Final = next(iter(COMPARED))
# Ends of the names of an adaptation's files.
_ENDINGS: Final = ("zo.tflite", "zolog", "adapted.tflite")


@dataclass(frozen=True)
class Adaptation:
    """The result of the adaptation by one algorithm."""

    accuracy: float  #: accuracy on the new domain after the adaptation
    steps: int
    equivalents: float  #: cost in forward equivalents, see `Trainer`
    seconds: float  #: duration of the adaptation
    weights: int  #: number of trainable weights
    inferences: float  #: instructions of a step for each sample on a Cortex-M4, estimated, in inferences
    arena: int  #: arena of the generated firmware with batch size 1, bytes
    workspace: int  #: bytes of a minibatch that the firmware keeps outside the arena
    replayed: bool  #: True if a replay of the log gives the weights of the run
    tflm_identical: bool | None  #: True if TFLM repeated the run bit for bit; None without TFLM
    files: dict[str, str]  #: written files by kind


@dataclass(frozen=True)
class DemoResult:
    """The result of the demo."""

    title: str  #: title of the scenario
    old: str  #: the old domain in a word or two
    new: str  #: the new domain in a word or two
    budget: int  #: budget of each adaptation, forward equivalents
    upright: float  #: accuracy of the int8 model on the old domain
    before: float  #: accuracy on the new domain before adaptation
    inference_arena: int  #: arena of the plain model on a Cortex-M4, bytes
    backpropagation: int  #: memory of backpropagation for one sample by the papers' equation, bytes
    model: str  #: path of the int8 model before adaptation
    adaptations: dict[str, Adaptation]  #: results by the algorithms of `COMPARED`, by name


@dataclass(frozen=True)
class _Story:
    """The common part of all adaptations of a demo."""

    plain: Model
    scenario: Scenario
    budget: int
    say: Callable[[str], None]
    callbacks: tuple[Callback, ...]
    repeat: bool

    def adapt(self, trainer: Trainer, stem: Path) -> Adaptation:
        """Trains with the trainer's algorithm, writes the files of `stem`, and checks them."""
        settings = trainer.settings
        zo, log, adapted, again = (stem.with_name(f"{stem.name}.{ending}") for ending in (*_ENDINGS, "tflm.zolog"))
        trainer.model.save(zo, force=True)
        self.say(f"adapting by {COMPARED[settings.algorithm]}")
        begin = time.perf_counter()
        self._fit(trainer, log)
        seconds = time.perf_counter() - begin
        exported = trainer.export(adapted, force=True).to_bytes()
        self.say("replaying the log")
        (replayed, _), trained = replay_log(trainer.model, log), trainer.runtime.read_weights()
        identical = None
        if self.repeat:
            self.say("repeating the run in TFLM")
            repeated = Trainer(trainer.model, settings, runtime="tflm")
            try:
                self._fit(repeated, again)
                same_log = again.read_bytes() == log.read_bytes()
            finally:
                again.unlink(missing_ok=True)
            identical = same_log and repeated.export().to_bytes() == exported
        of_device, samples = inject(self.plain, inject_settings(settings, batch=1)), len(self.scenario.adapt[1])
        firmware = generate_firmware(of_device, settings, steps=trainer.step, samples=samples)
        run, m4 = plan_run(of_device, settings, steps=1, samples=samples), Instructions("cortex-m4", "cmsis_nn")
        instructions = m4.step(of_device, read_metadata(of_device), run) / run.minibatch
        return Adaptation(
            accuracy=trainer.evaluate(*self.scenario.test)["accuracy"],
            steps=trainer.step,
            equivalents=trainer.equivalents,
            seconds=seconds,
            weights=sum(t.size for t in trainer.runtime.metadata.trainable),
            inferences=instructions / m4.inference(self.plain),
            arena=firmware.ram.arena.bytes,
            workspace=firmware.ram.workspace,
            replayed=all(np.array_equal(replayed[tensor], trained[tensor]) for tensor in trained),
            tflm_identical=identical,
            files={"ZO model": str(zo), "log": str(log), "adapted int8 model": str(adapted)},
        )

    def _fit(self, trainer: Trainer, log: Path) -> None:
        trainer.fit(*self.scenario.adapt, budget=self.budget, log=log, replace=True, callbacks=self.callbacks)
        if trainer.interrupted:  # half a story has no end
            raise KeyboardInterrupt


def _stem(dataset: str, name: str) -> str:
    return dataset if name == _DEFAULT else f"{dataset}.{name}"


def file_names(dataset: str) -> list[str]:
    """Returns the names of the files that the demo writes for a data set."""
    return [f"{dataset}.tflite", *(f"{_stem(dataset, name)}.{ending}" for name in COMPARED for ending in _ENDINGS)]


def run_demo(
    output: str | os.PathLike[str],
    *,
    dataset: str = "digits",
    seed: int = 0,
    budget: int | None = None,
    say: Callable[[str], None] = lambda _: None,
    callbacks: tuple[Callback, ...] = (),
    exact: bool = True,
) -> DemoResult:
    """Runs the demo: pre-trains in Keras, converts, adapts by forward passes, exports, replays and repeats in TFLM. It
    uses node perturbation and, for comparison, exact gradients and weight perturbation.

    Args:
        output: folder for the files, which replace those of an earlier demo; it is created if needed.
        dataset: name of the data set, one of `SCENARIOS`.
        seed: seed of pre-training and adaptation.
        budget: budget of each adaptation, forward equivalents; None: the scenario's.
        say: function that prints a line of text at each stage.
        callbacks: callbacks of the adaptations.
        exact: True to repeat the runs in TFLM.

    Raises ValueError if no data set has that name; KeyboardInterrupt, by Ctrl-C, ends the demo.
    """
    if dataset not in SCENARIOS:
        raise ValueError(f"no dataset {dataset!r}; there are {', '.join(SCENARIOS)}")
    say("loading data and Keras")
    scenario = SCENARIOS[dataset]()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)

    say("pre-training in Keras, with backpropagation")
    plain = _pretrained(scenario, seed)
    path = plain.save(folder / f"{dataset}.tflite", force=True)
    trainers = {name: Trainer(plain, ALGORITHMS[name](seed=seed), runtime="litert") for name in COMPARED}
    upright, before = (trainers[_DEFAULT].evaluate(*data)["accuracy"] for data in (scenario.upright, scenario.test))
    say(f"int8: {100 * upright:.1f} % {scenario.old}, {100 * before:.1f} % {scenario.new}")
    total = budget or scenario.budget
    story = _Story(plain, scenario, total, say, callbacks, exact and "tflm" in available())
    return DemoResult(
        title=scenario.title,
        old=scenario.old,
        new=scenario.new,
        budget=total,
        upright=upright,
        before=before,
        inference_arena=arenas_of([[plain]], [0])[0].bytes,
        backpropagation=backpropagation_bytes(plain),
        model=str(path),
        adaptations={name: story.adapt(trainer, folder / _stem(dataset, name)) for name, trainer in trainers.items()},
    )


def _pretrained(scenario: Scenario, seed: int) -> Model:
    from ..conversion.keras import convert
    from ..conversion.keras_source import quiet
    from ..keras_models import pretrain

    # TensorFlow has much to say when it is imported and first used.
    with quiet():
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import keras

        keras.utils.set_random_seed(seed)
        model = scenario.build()
    x, y = scenario.pretrain
    pretrain(model, x, y, epochs=scenario.epochs, seed=seed)
    return convert(model, x[:300]).model


def backpropagation_bytes(model: Model) -> int:
    """Returns the int8 memory of full backpropagation for one sample by a plain int8 model at batch 1, bytes.

    Parameters and their gradients, activations and their errors (ElasticZO, the equation of M_Full-BP):

        sum over trainable layers (|theta| + |g|) + sum over layers (|a| + |e|)

    Each element counts one byte, biases included. Batch norm is folded into the layer before it, and a
    RESHAPE is a view of its input.
    """
    operators, kinds = model.subgraphs[0].operators, ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    constants = (t for op in operators if op.code.name in kinds for t in op.inputs[1:] if t and t.is_constant)
    parameters = sum({id(t): t.size for t in constants}.values())
    activations = sum(t.size for op in operators if op.code.name != "RESHAPE" for t in op.outputs)
    return 2 * parameters + 2 * activations


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def print_report(result: DemoResult, console: Console) -> None:
    """Prints the results of the demo and the names of its files."""
    in_tflm = {True: "bit-identical", False: "DIFFERENT", None: "not checked"}
    rows = {
        f"accuracy, {result.new}": lambda a: _percent(a.accuracy),
        "forward equivalents": lambda a: f"{a.equivalents:,.0f}",
        "steps": lambda a: f"{a.steps:,}",
        "time": lambda a: f"{a.seconds:.1f} s",
        "trainable weights": lambda a: f"{a.weights:,}",
        "instructions for a sample, in inferences": lambda a: f"{a.inferences:.1f}",
        "RAM on a Cortex-M4: arena": lambda a: f"{a.arena:,} bytes",
        "kept of a minibatch besides": lambda a: f"{a.workspace:,} bytes",
        "weights replayed from the log alone": lambda a: "identical" if a.replayed else "DIFFERENT",
        "the same run in TFLM": lambda a: in_tflm[a.tflm_identical],
    }
    before = {
        f"accuracy, {result.new}": _percent(result.before),
        "RAM on a Cortex-M4: arena": f"{result.inference_arena:,} bytes",
    }
    table = Table(title=f"{result.title}: {_percent(result.upright)} {result.old}", title_justify="left")
    for column in "", "before", *(COMPARED[name] for name in result.adaptations):
        table.add_column(column, justify="right" if column else "left")
    for name, value in rows.items():
        table.add_row(name, before.get(name, ""), *map(value, result.adaptations.values()))
    console.print(table)
    console.print(
        f"Backpropagation in int8 needs {result.backpropagation:,} bytes for the data of one sample alone.",
        highlight=False,
    )
    files = {"int8 model": result.model}
    for name, adaptation in result.adaptations.items():
        files |= {f"{kind} ({name})": path for kind, path in adaptation.files.items()}
    for kind, path in files.items():
        console.print(f"{kind:>28}  {path}", highlight=False)
