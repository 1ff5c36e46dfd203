# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""``tflm-zo train``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ...converters import Model, load_model, read_metadata
from ...data import prepare
from ...logs import MAGIC, LogError, is_snapshot_log
from ...training import (
    Algorithm,
    BlockProbes,
    Callback,
    Checkpoint,
    CSVLogger,
    History,
    NodeSettings,
    ProgressBar,
    Trainer,
    algorithm_of,
    trained_layers,
)
from ...training import algorithm as algorithm_of_name
from ...training.held_out import hold_out
from ...training.node_settings import EXACT_RULES, HEADS, NODE_RULES, OTHERS, WEIGHT_RULES
from ...training.settings import ESTIMATORS, RULES, SCHEDULES, SCOPES, SettingsError
from ...training.trainer import KEEPS, MOST_BUDGET_STEPS, check_length, usual_epochs
from ..algorithm_options import ALGORITHM_HELP, default_of, make_settings, parse_settings
from ..block_probes import choice_table, choose
from ..distribution import DISTRIBUTIONS
from ..failures import interruption_code, note, warn
from ..injection import KeepZoModel, inject_for_training, is_zo, parse_loss_output, parse_nodes
from ..options import Force, Json, LossOutput, ModelFile, OutputModel, RuntimeName
from ..output_file import check_different, check_output, claim_outputs, write_output
from ..results import show, table

EXAMPLE = "tflm-zo train model.tflite adapt.npz -o adapted.tflite --epochs 20 --validation test.npz"

_HELD_OUT = 0.2
_SYNC_S = 1.0
_HEAD_BYTES = len(MAGIC) + 2  # of a log: the version after the magic tells the kind


def _one_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}."


def _help(text: str, setting: str) -> str:
    return f"{text} {default_of(setting)}"


def train(
    context: typer.Context,
    model: ModelFile,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help=".npz file with x and y, or .npy.", show_default=False)
    ],
    output: OutputModel,
    runtime: RuntimeName = "litert",
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Default: the one that a ZO model was made for; of a plain model node. {ALGORITHM_HELP}.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the data (default: 10, or as many as take 300 steps).")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps instead of epochs.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="As many steps as N forward equivalents are good for, 50,000 at most; "
            "fewer where nothing gets better.",
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help=_help("Minibatch: a multiple of the model's batch.", "batch_size"))
    ] = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N",
            help=_help(
                "Directions per step; algorithm node: per sample and layer, or of a layer with LAYER=N, "
                "repeatable; auto: as many as cost a tenth of a forward pass, at least 2.",
                "queries",
            ),
        ),
    ] = None,
    mu: Annotated[int | None, typer.Option(help=_help("Perturbation of a node, LSB.", "mu"))] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help=_help(
                f"Of the last layer: {_one_of(HEADS)} zo: by perturbation; exact: by its outer product.",
                "head",
            )
        ),
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(
            help=_help("With head exact: so many of the last dense layers by their exact gradients.", "tail")
        ),
    ] = None,
    exact_rule: Annotated[
        str | None,
        typer.Option(
            help=_help(
                f"Of exact gradients: {_one_of(EXACT_RULES)} rms: steps of a known size; bits: rounded to "
                "--exact-bits; standardized: their mean taken off, divided by their deviation.",
                "exact_rule",
            )
        ),
    ] = None,
    exact_bits: Annotated[
        str | None, typer.Option(metavar="A,B,C", help=_help("Of rule bits, in each stage.", "exact_bits"))
    ] = None,
    sparse_rows: Annotated[
        str | None,
        typer.Option(
            metavar="LEAST,MOST",
            help=_help(
                "Share of an exact layer's outputs that a step updates, more while the loss is large.",
                "sparse_rows",
            ),
        ),
    ] = None,
    others: Annotated[
        str | None,
        typer.Option(
            help=_help(
                f"Trainable layers without nodes: {_one_of(OTHERS)} layers: each is perturbed by itself.",
                "others",
            )
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="LAYER,…",
            help="Train these layers alone, names or patterns (only layer-wise algorithms: all).",
            show_default=False,
        ),
    ] = None,
    choose_block: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Split the layers into N blocks, train each for an epoch, then the best alone on all data "
            "(only layer-wise algorithms).",
            show_default=False,
        ),
    ] = None,
    probe_epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Of each probe of --choose-block (default: 1; more tell better where it has few steps).",
            show_default=False,
        ),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of DATA's samples that the run is not trained on: it keeps the weights with the "
            "smallest loss on them; with --choose-block they tell the best block instead "
            f"(default: {_HELD_OUT}).",
        ),
    ] = None,
    weight_rule: Annotated[
        str | None, typer.Option(help=_help(f"Of those: {_one_of(WEIGHT_RULES)}", "weight_rule"))
    ] = None,
    weight_rate: Annotated[
        float | None, typer.Option(help=_help("Of those: first step size.", "weight_rate"))
    ] = None,
    weight_clip: Annotated[
        float | None,
        typer.Option(help=_help("Of those: of a query's loss difference, 0: none.", "weight_clip")),
    ] = None,
    weight_bits: Annotated[int | None, typer.Option(help=_help("Of rule bits.", "weight_bits"))] = None,
    stages: Annotated[
        str | None,
        typer.Option(metavar="A,B", help=_help("Shares of the run at which later stages begin.", "stages")),
    ] = None,
    stage_p_zero: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help=_help("Zeros of a sparse uniform distribution in later stages.", "stage_p_zero"),
        ),
    ] = None,
    masked: Annotated[
        bool | None,
        typer.Option(help=_help("Leave nodes at the clamp of an activation alone.", "masked")),
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:SIZE",
            help=_help(f"Of the weights' perturbation: {DISTRIBUTIONS}.", "distribution"),
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help=_help("First step size; LSB for algorithm node and rule normalized.", "rate")),
    ] = None,
    final_rate: Annotated[
        float | None, typer.Option(help=_help("Step size at the end.", "final_rate"))
    ] = None,
    schedule: Annotated[str | None, typer.Option(help=_help(_one_of(SCHEDULES), "schedule"))] = None,
    warmup_steps: Annotated[
        int | None, typer.Option(help=_help("Steps of rising rate.", "warmup_steps"))
    ] = None,
    decay: Annotated[
        float | None, typer.Option(help=_help("Schedule step: factor of the rate.", "decay"))
    ] = None,
    decay_steps: Annotated[
        int | None, typer.Option(help=_help("Schedule step: every so many steps.", "decay_steps"))
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            help=_help(
                "Node: largest step of a weight, LSB; weight: of a query's loss difference, 0: none.",
                "clip",
            )
        ),
    ] = None,
    estimator: Annotated[str | None, typer.Option(help=_help(_one_of(ESTIMATORS), "estimator"))] = None,
    rule: Annotated[
        str | None,
        typer.Option(help=_help(f"Layer-wise: {_one_of(NODE_RULES)} Weights: {_one_of(RULES)}", "rule")),
    ] = None,
    quantization_aware: Annotated[
        bool | None,
        typer.Option(help=_help("Layer-wise, rule gradient: rate times 1/s².", "quantization_aware")),
    ] = None,
    gradient_norm: Annotated[
        bool | None,
        typer.Option(
            help=_help("Scale the rate by N Q / (N Q + d - 1): samples, queries, weights.", "gradient_norm")
        ),
    ] = None,
    momentum: Annotated[
        float | None,
        typer.Option(help=_help("Memory of Gaussian directions, 0 to 1 (QZO-FF).", "momentum")),
    ] = None,
    momentum_terms: Annotated[
        int | None, typer.Option(help=_help("Steps that it reaches back.", "momentum_terms"))
    ] = None,
    sharpness: Annotated[
        bool | None,
        typer.Option(help=_help("Compare losses uphill of the weights (QZO-FF).", "sharpness")),
    ] = None,
    scope: Annotated[
        str | None, typer.Option(help=_help(f"{_one_of(SCOPES)} Blocks: one a step.", "scope"))
    ] = None,
    update_bits: Annotated[
        int | None,
        typer.Option(help="Of a plain MODEL: 16: a fraction byte per weight; 8: none (default: 16)."),
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="Of a plain MODEL: as of inject (default: auto).", show_default=False)
    ] = None,
    loss_output: LossOutput = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="LAYER,…",
            help="Of a plain MODEL: layers that carry nodes, as of inject.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help=_help("Of directions, rounding and order.", "seed"))
    ] = None,
    rehearsal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=".npz of what the model knows: mixed in, against forgetting."),
    ] = None,
    validation: Annotated[Path | None, typer.Option(metavar="FILE", help=".npz, after each epoch.")] = None,
    keep: Annotated[
        str,
        typer.Option(
            help="Which weights are written. best: those with the smallest loss on --validation, on the "
            "samples that --held-out sets aside, or else on DATA (10,000 samples at most); the loss is "
            "measured before the first step, at ends of epochs, 20 times at most, and after the last step. "
            "last: those of the last step."
        ),
    ] = "best",
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The log; default: the output with .zolog.")
    ] = None,
    zo_model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the ZO model of a plain MODEL goes; default: the output with .zo.tflite.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the log, or begin where there is none.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Copy the log here after each epoch.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="One line per epoch.")] = None,
    snapshot_every: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS", help=_help("Write the weights into the log so often.", "snapshot_every")
        ),
    ] = None,
    sync_every: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help=f"Bring the log to the disk so often; 0: each step (only weight: {_SYNC_S}).",
        ),
    ] = None,
    re_range: Annotated[
        bool,
        typer.Option(
            "--re-range", help="New scales for the output's filters, from the trained weights' range."
        ),
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a model with forward passes and write the trained plain int8 model.

    MODEL is a ZO model, made by inject, or a plain int8 model, which is injected as the algorithm needs it;
    its ZO model is written, too, since replay needs it.

    Ctrl-C ends the run after the last whole step: log and model are written, the exit code is 130, and
    --resume goes on to the same bits as a run that was never interrupted. SIGTERM and SIGHUP do the same,
    with exit codes 143 and 129. After a kill or a power failure --resume goes on, too: by weight
    perturbation a kill loses no whole step, and a power failure the last second (--sync-every); by node
    perturbation the steps since the last snapshot (--snapshot-every) are repeated. While a run writes its
    log, another one that would write the same log is refused.

    A checkpoint is a log, too: replay makes a model of it.

    Tasks differ in which layers are best trained, and few layers take few forward passes:
    tflm-zo train model.tflite adapt.npz -o adapted.tflite --algorithm poor-mans-training --batch-size 32
    --choose-block 4 --held-out 0.2 --budget 100000
    tries each of four blocks for an epoch and trains the best. What the probes take is part of the budget;
    --resume reads the block off the log. The algorithm there trains all layers; the default one trains those
    that carry nodes, which in many networks are too few for four blocks.
    """
    log = log or output.with_suffix(".zolog")
    source = load_model(model)
    plain = not is_zo(source)
    if plain:
        zo_model = zo_model or output.with_suffix(".zo.tflite")
    elif zo_model is not None:
        raise ValueError(f"--zo-model: {model} is a ZO model already")
    writes = {"-o": output, "--log": log, "--zo-model": zo_model, "--checkpoint": checkpoint, "--csv": csv}
    check_different(
        {"MODEL": model, "DATA": data, "--rehearsal": rehearsal, "--validation": validation}, writes
    )
    for path in writes.values():
        check_output(path, force=force or resume)
    claim_outputs(context, writes.values())
    if held_out is not None and validation is not None and choose_block is None:
        raise SettingsError("--held-out, --validation: give one of them, the run is measured on it")
    if probe_epochs is not None and choose_block is None:
        raise SettingsError("--probe-epochs needs --choose-block, whose probes it is of")
    if keep not in KEEPS:
        raise ValueError(f"--keep: expected best or last, got {keep}")

    check_length(epochs, steps, budget)

    given = {
        "batch_size": batch_size,
        "queries": queries,
        "mu": mu,
        "head": head,
        "tail": tail,
        "exact_rule": exact_rule,
        "exact_bits": exact_bits,
        "sparse_rows": sparse_rows,
        "others": others,
        "only": None if only is None else _parse_only(only),
        "weight_rule": weight_rule,
        "weight_rate": weight_rate,
        "weight_clip": weight_clip,
        "weight_bits": weight_bits,
        "stages": stages,
        "stage_p_zero": stage_p_zero,
        "masked": masked,
        "quantization_aware": quantization_aware,
        "distribution": distribution,
        "rate": rate,
        "final_rate": final_rate,
        "schedule": schedule,
        "warmup_steps": warmup_steps,
        "decay": decay,
        "decay_steps": decay_steps,
        "clip": clip,
        "estimator": estimator,
        "rule": rule,
        "gradient_norm": gradient_norm,
        "momentum": momentum,
        "momentum_terms": momentum_terms,
        "sharpness": sharpness,
        "scope": scope,
        "seed": seed,
        "snapshot_every": snapshot_every,
    }
    injection = {
        "update_bits": update_bits,
        "loss": None if loss is None else loss.replace("-", "_"),
        "loss_output": parse_loss_output(loss_output),
        "nodes": None if nodes is None else parse_nodes([nodes]),
    }
    injection = {name: value for name, value in injection.items() if value is not None}
    if plain:
        zo, chosen = inject_for_training(
            source, algorithm, batch_size, lambda a: parse_settings(a, given), **injection
        )
    else:
        if injection:
            name = next(iter(injection)).replace("_", "-")
            raise ValueError(f"--{name}: {model} is a ZO model already; give the plain model")
        zo, chosen = source, _algorithm_of(model, source, algorithm)
    settings = make_settings(chosen, parse_settings(chosen, given), read_metadata(zo))
    if chosen.is_layerwise and sync_every is not None:
        raise SettingsError(
            f"--sync-every is no option of algorithm {chosen.name}, whose snapshots are brought to the disk; "
            "--snapshot-every says how often"
        )
    if choose_block is not None and not isinstance(settings, NodeSettings):
        raise SettingsError(
            f"--choose-block is for layer-wise algorithms; {chosen.name} perturbs all weights at once"
        )
    trainer = Trainer(zo, settings, runtime=runtime)
    if resume:
        _check_kind(log, chosen)
    own = prepare(trainer.runtime, data)
    measured = None if validation is None else prepare(trainer.runtime, validation)
    if held_out is not None and choose_block is None:
        of_model = trainer.runtime.metadata.loss
        assert of_model is not None  # the trainer has refused such a model
        own, measured = hold_out(own, of_model, held_out, trainer.settings.seed)
    mixed = own if rehearsal is None else own + prepare(trainer.runtime, rehearsal)
    if epochs is None and steps is None and budget is None:
        epochs = usual_epochs(len(mixed), trainer.settings.batch_size)
    callbacks: list[Callback] = [ProgressBar()]
    if csv is not None:
        callbacks.append(CSVLogger(csv))
    if checkpoint is not None:
        callbacks.append(Checkpoint(checkpoint, replace=force))
    kept_zo = None
    if plain:
        assert zo_model is not None
        kept_zo = KeepZoModel(zo_model, zo.to_bytes(), log, force=force, resume=resume)
        callbacks.append(kept_zo)
    block_choice = None
    if choose_block is not None:
        # What is wrong with the run to come is said before the probes, not after.
        if budget is None:
            trainer.planned_steps(len(mixed), 1 if epochs is None else epochs, steps)
        probes = BlockProbes(
            trainer,
            None,
            mixed,
            blocks=choose_block,
            held_out=_HELD_OUT if held_out is None else held_out,
            epochs=1 if probe_epochs is None else probe_epochs,
        )
        if budget is not None:
            budget = probes.rest_of(budget, len(mixed))
        block_choice = choose(probes, log if resume else None)
        trainer = Trainer(zo, probes.settings_of(block_choice["best"]), runtime=runtime)
    if (
        budget is not None
        and (affordable := trainer.affordable_steps(budget, len(mixed))) > MOST_BUDGET_STEPS
    ):
        note(f"the budget is good for {affordable:,} steps; the run ends after {MOST_BUDGET_STEPS:,}")
    trained = trained_layers(zo, trainer.settings)
    callbacks.insert(0, _SayWhatIsTrained(trained.sentence))
    on = measured or trainer.measured_samples(mixed)
    measured_on = _measured_on(data, rehearsal, validation, len(on), len(mixed))
    if measured is not None and validation is None:
        measured_on = f"{len(measured):,} samples of {data}, held out"
    before = None if keep == "best" or resume else trainer.evaluate(on)
    try:
        history = trainer.fit(
            mixed,
            epochs=epochs,
            steps=steps,
            budget=budget,
            validation_data=measured,
            callbacks=callbacks,
            log=log,
            resume=resume,
            replace=force,
            sync_every=_SYNC_S if sync_every is None else sync_every,
            keep=keep,
        )
    except BaseException:
        if kept_zo is not None:
            kept_zo.withdraw()
        raise
    again = f"tflm-zo replay makes the model of {zo_model or model} and {log}"
    _write_model(trainer, output, again, re_range=re_range, force=force or resume)
    if history.measurements:
        before, final = _measured_at(history, 0), _measured_at(history, history.kept_step)
    else:
        # Who has pressed Ctrl-C wants the prompt back.
        final = {} if trainer.interrupted else trainer.evaluate(on)
    result: dict[str, Any] = {
        "output": str(output),
        "log": str(log),
        "zo_model": str(zo_model or model),
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "runtime": runtime,
        "algorithm": chosen.name,
        "samples": len(own),
        "rehearsal_samples": len(mixed) - len(own),
        "trains": dataclasses.asdict(trained),
        "trainable_weights": trained.weights,
        "buffer_bytes": trainer.buffer_bytes,
        "steps": trainer.step,
        "equivalents": round(trainer.equivalents, 3),
        "block_choice": block_choice,
        "interrupted": trainer.interrupted,
        "forwards": history.forwards,
        "seconds": round(history.seconds, 3),
        "equivalents_per_second": round(history.equivalents / max(history.seconds, 1e-9), 1),
        "evaluated_on": measured_on,
        "keep": keep,
        "kept_step": history.kept_step,
        "before": before,
        "measurements": history.measurements,
        **final,
        "history": history.history,
    }
    show(result, as_json=as_json, render=lambda console: _render(console, result))
    if history.measurements and not history.kept_step:
        warn(
            f"nothing got better: of {len(history.measurements)} measurements on {result['evaluated_on']} "
            f"that before the first step is the best, so {output} has the weights that the run began with; "
            "--keep last writes the last ones"
        )
    if budget is not None and not trainer.interrupted and trainer.step < trainer.planned:
        note(
            f"nothing got better any more: the run ended after {trainer.step:,} of {trainer.planned:,} steps"
        )
    if trainer.interrupted:
        what = "the same" if history.kept_step == trainer.step else f"the best measured ({history.kept_step})"
        warn(
            f"interrupted: {log} is that of the last whole step ({trainer.step}), {output} that of {what}; "
            "the same command with --resume goes on"
        )
        raise typer.Exit(interruption_code())


def _parse_only(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise SettingsError(f"--only: expected names of layers separated by commas, got {text!r}")
    return names


class _SayWhatIsTrained(Callback):
    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def on_train_begin(self, trainer: Trainer, steps: int) -> None:
        """Before the bar, when nothing is left to be refused."""
        note(self._sentence)


def _algorithm_of(path: Path, zo: Model, name: str | None) -> Algorithm:
    """The algorithm asked for, or the one that a ZO model was made for."""
    made_for = algorithm_of(read_metadata(zo))
    chosen = made_for if name is None else algorithm_of_name(name)
    if chosen.takes_nodes and chosen.name == "node" and not read_metadata(zo).nodes:
        raise SettingsError(
            f"--algorithm {chosen.name}: {path} carries no nodes; give the plain model, or inject that with "
            f"--algorithm {chosen.name}"
        )
    return chosen


def _check_kind(log: Path, chosen: Algorithm) -> None:
    """Raises LogError where a log, if there is a whole one, is of the other kind of perturbation."""
    if not log.is_file() or log.read_bytes()[: len(MAGIC)] != MAGIC or log.stat().st_size < _HEAD_BYTES:
        return  # the trainer says what it is instead
    if is_snapshot_log(log) != chosen.is_layerwise:
        what = "weight perturbation" if chosen.is_layerwise else "a layer-wise run"
        raise LogError(f"{log} is of {what}; algorithm {chosen.name} cannot go on from it")


def _write_model(trainer: Trainer, output: Path, again: str, *, re_range: bool, force: bool) -> None:
    try:
        write_output(output, trainer.export(re_range=re_range).to_bytes(), force=force)
    except OSError as error:
        what = error.strerror or str(error)
        raise OSError(error.errno, f"{what}; nothing is lost: {again}", str(output)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{output} is not written; nothing is lost: {again}") from None


def _measured_on(data: Path, rehearsal: Path | None, validation: Path | None, used: int, count: int) -> str:
    """What the result's loss is of."""
    if validation is not None:
        return str(validation)
    what = f"{data} and {rehearsal}" if rehearsal is not None else str(data)
    return what if used == count else f"{used:,} of the {count:,} samples of {what}"


def _measured_at(history: History, step: int) -> dict[str, float]:
    """Loss and accuracy of the measurement after so many steps."""
    found = next(m for m in history.measurements if m["step"] == step)
    return {name: value for name, value in found.items() if name != "step"}


def _values(measured: dict[str, Any]) -> str:
    accuracy = f"accuracy {measured['accuracy']:.2%}, " if "accuracy" in measured else ""
    return f"{accuracy}loss {measured['loss']:.4f}"


def _render(console: Console, result: dict[str, Any]) -> None:
    if "loss" in result:
        before = "" if result["before"] is None else f"before: {_values(result['before'])}; after: "
        console.print(f"{before}{_values(result)} on {result['evaluated_on']}", markup=False)
    if result["measurements"]:
        console.print(
            f"kept: the weights after {result['kept_step']:,} of {result['steps']:,} steps, the best of "
            f"{len(result['measurements'])} measurements",
            markup=False,
        )
    if result["block_choice"] is not None:
        console.print(choice_table(result["block_choice"]))
    row = {
        "algorithm": result["algorithm"],
        "steps": result["steps"],
        "forward equivalents": round(result["equivalents"]),
        "weights": result["trainable_weights"],
        "buffer bytes": result["buffer_bytes"],
        "seconds": round(result["seconds"], 1),
        "equivalents/s": round(result["equivalents_per_second"]),
    }
    console.print(table("Training", list(row), [list(row.values())]))
    files = {"output": "trained model", "log": "log", "zo_model": "ZO model, which log and replay belong to"}
    for name, what in files.items():
        console.print(f"{result[name]}: {what}", markup=False)
