# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Ways to adapt a task's model within a budget of forward equivalents."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import int8_backpropagation
import numpy as np
from ablations import ABLATIONS
from blocks import best_block
from method import Method
from old_statistics import with_old_statistics
from task import Task

from tflm_zo.converters import load_model, read_metadata
from tflm_zo.training import ALGORITHMS, Exact
from tflm_zo.training.algorithms import summary

BATCH = 32

# The last layer of ResNet-8 bears 1 LSB in fog and in the dark, and overfits at that rate. On validation data
# 0.02 LSB is best of 0.005 to 0.1 with 128 images (fog, impulse noise), and 0.06 with 1,000.
_SMALL_HEAD = {"exact.last": 1, "learning_rate": 0.03}


METHODS: dict[str, Method] = {
    "chosen": Method("the way that `tflm-zo train` chooses without options", "exact", chosen=True),
    "chosen-512K": Method("the same in 512 KiB of RAM", "exact", chosen=True, device={"ram": 512 * 1024}),
    "chosen-256K": Method("the same in 256 KiB of RAM", "exact", chosen=True, device={"ram": 256 * 1024}),
    "chosen-128K": Method("the same in 128 KiB of RAM", "exact", chosen=True, device={"ram": 128 * 1024}),
    "chosen-64K": Method("the same in 64 KiB of RAM", "exact", chosen=True, device={"ram": 64 * 1024}),
    "chosen-forward-only": Method(
        "the same, by forward passes alone", "exact", chosen=True, device={"forward_only": True}
    ),
    "node": Method("node perturbation, strictly zeroth-order", "node"),
    "node-exact": Method("node perturbation, exact head", "node", settings={"exact.last": 1}),
    "node-all": Method("node perturbation of weights and biases", "node", settings={"parameters": "all"}),
    "node-biases": Method(
        "node perturbation, biases alone", "node", settings={"parameters": "biases", "learning_rate": 2.0}
    ),
    "exact": Method("exact gradients of all layers, one sample at a time", "exact"),
    "recalibrated-exact": Method("recalibration, then the same", "exact", recalibrate=True),
    "weight": Method("whole-model weight perturbation (SPSA), no extra memory", "weight"),
    "node-weights": Method(
        "node perturbation, and weight perturbation of all other layers together",
        "node",
        settings={"weights.scope": "model"},
    ),
    "weight-all": Method(
        "whole-model weight perturbation of weights and biases", "weight", settings={"parameters": "all"}
    ),
    "weight-biases": Method(
        "whole-model weight perturbation of biases alone", "weight", settings={"parameters": "biases"}
    ),
    "recalibrated-node": Method("recalibration, then node perturbation", "node", recalibrate=True),
    "node-300-steps": Method("node perturbation, as long as a run without a budget", "node", steps=300),
    "recalibrated-node-300-steps": Method("the same after recalibration", "node", steps=300, recalibrate=True),
    "recalibrated-node-6100-steps": Method(
        "recalibration, then 6,100 steps of node perturbation", "node", steps=6100, recalibrate=True
    ),
    "recalibrated-node-weights": Method(
        "recalibration, then node perturbation and weight perturbation of all other layers together",
        "node",
        settings={"weights.scope": "model"},
        recalibrate=True,
    ),
    "recalibrated-node-everywhere": Method(
        "recalibration, then node perturbation of every layer", "node", injection={"nodes": "*"}, recalibrate=True
    ),
    "recalibrated-weight": Method("recalibration, then whole-model weight perturbation", "weight", recalibrate=True),
    "head-zo": Method("node perturbation of the last layer alone", "node", last_layer=True),
    "head-exact": Method("exact gradient of the last layer alone", "node", settings={"exact.last": 1}, last_layer=True),
    "head-exact-small": Method("the same at a rate that ResNet-8 bears", "node", settings=_SMALL_HEAD, last_layer=True),
    "recalibrated-head-exact": Method(
        "recalibration, then the same", "node", settings=_SMALL_HEAD, last_layer=True, recalibrate=True
    ),
    "node-rehearsal": Method("node perturbation, old samples mixed in", "node", rehearsal=True),
    "backpropagation": Method("full backpropagation, float32 in Keras (Adam), then converted to int8", ""),
    "backpropagation-norm": Method("the same, with batch norm that follows the new data", "", frozen_norm=False),
    "int8-backpropagation": Method(
        "full backpropagation in int8, standardized gradients (FQT)", "", integer="standardized"
    ),
    "int8-backpropagation-niti": Method(
        "full backpropagation in int8, gradients rounded to few bits (NITI)", "", integer="rounded"
    ),
    **{
        name: Method(summary(name), name)
        for name in ALGORITHMS
        if name not in ("node", "exact", "weight", "elastic-zo-int8")
    },
    "elastic-zo-tail-2": Method("ElasticZO, two layers by backpropagation", "elastic-zo", settings={"last": 2}),
    # 50 epochs of 1,024 images in minibatches of 256: ElasticZO-INT8, sec. 5.2.
    "elastic-zo-int8-full": Method(
        "ElasticZO-INT8 as published, all layers zeroth-order (Full ZO)", "elastic-zo-int8", exact=False, steps=200
    ),
    "elastic-zo-int8": Method(
        "ElasticZO-INT8 as published, one layer by backpropagation (ZO-Feat-Cls2)", "elastic-zo-int8", steps=200
    ),
    "elastic-zo-int8-tail-2": Method(
        "ElasticZO-INT8 as published, two layers by backpropagation (ZO-Feat-Cls1)",
        "elastic-zo-int8",
        settings={"last": 2},
        steps=200,
    ),
    **ABLATIONS,
}


HELD_OUT = 0.2


def method_of(name: str) -> Method:
    """Returns the method of a name, or of NAME:N, with minibatches of N samples. @RATE behind it gives the rate, @2x
    takes twice the measured one. Raises KeyError or ValueError.
    """
    name, _, rate = name.partition("@")
    name, _, samples = name.partition(":")
    method, own = METHODS[name], {}
    if samples:
        own["batch_size"] = int(samples)
    if rate.endswith("x"):
        method = dataclasses.replace(method, rate=float(rate[:-1]))
    elif rate:
        own["learning_rate"] = float(rate)
    return dataclasses.replace(method, settings={**method.settings, **own})


def adapt(task: Task, method: Method, budget: float, seed: int, guard: str = "") -> dict[str, float]:
    """Adapts the task's model and measures its accuracy.

    Args:
        task: the model and its data.
        method: how it is adapted.
        budget: forward equivalents.
        seed: of the run.
        guard: samples that select the best state: "held-out", a fifth that is excluded from training
            (`tflm-zo train --held-out 0.2`), "training", the training samples, or "", none; forward-only
            methods alone.

    Returns:
        Accuracies in percent: "validation", "test", "before" (the int8 model that adapts) and, if the task
        has an old domain, "old"; the number of "steps", and the forward "equivalents" that they took. With a
        guard also "last", the test accuracy of the last step's weights, "kept_step", and whether the run
        "ended_worse" than it began: with a larger loss of these samples, or with fewer right answers to them.
    """
    x, y = task.adapt
    if method.rehearsal:
        if task.rehearsal is None:
            raise ValueError("the task has no old domain to rehearse")
        x, y = np.concatenate([x, task.rehearsal[0]]), np.concatenate([y, task.rehearsal[1]])
    if method.integer:
        return int8_backpropagation.adapt(task, budget, seed, int8_backpropagation.Settings(rule=method.integer))
    if not method.algorithm:
        return _backpropagate(task, x, y, budget, seed, method.frozen_norm)
    if method.chosen:
        return _chosen(task, x, y, method.device)
    from tflm_zo import inject, recalibrate
    from tflm_zo.training import Trainer, algorithm, inject_settings
    from tflm_zo.training.rate import with_measured_rate
    from tflm_zo.training.run_data import RunData
    from tflm_zo.training.setting_texts import changed

    run, probes = changed(algorithm(method.algorithm), {"seed": seed, **method.settings}), 0.0
    if not method.exact:
        run = dataclasses.replace(run, tasks=tuple(t for t in run.tasks if not isinstance(t, Exact)))
    plain = load_model(task.model)
    if method.recalibrate:
        plain = recalibrate(with_old_statistics(plain, task.keras, task.calibration), x).model
    zo = inject(plain, inject_settings(run, batch=min(BATCH, run.batch_size), **method.injection))
    if method.last_layer:
        metadata = read_metadata(zo)
        last = metadata.trainable[metadata.nodes[-1].trainable].layer
        zo = inject(plain, inject_settings(run, batch=min(BATCH, run.batch_size), nodes=(last,)))
    if method.choose_block:
        layers, probes = best_block(zo, run, x, y, blocks=method.choose_block, epochs=method.probe_epochs)
        run = dataclasses.replace(run, layers=layers)
    trainer = Trainer(zo, run, runtime="litert")
    before = 100 * trainer.evaluate(*task.test)["accuracy"]
    length: dict[str, Any] = {"budget": budget - probes}
    most = method.steps or method.most_steps
    if method.steps or (most is not None and most < trainer.affordable_steps(budget - probes, len(y))):
        length = {"steps": most}
    if method.rate != 1:
        data, steps = RunData.of(trainer.runtime, x, y).train, trainer.affordable_steps(budget - probes, len(y))
        found, steps, _ = with_measured_rate(trainer.runtime, zo, run, data, steps, budget - probes)
        run = dataclasses.replace(run, learning_rate=method.rate * (found.learning_rate or 0.0))
        trainer, length = Trainer(zo, run, runtime="litert"), {"steps": steps}
    guarded: dict[str, float] = {}
    if guard:
        history = _fit_guarded(trainer, x, y, length, task.test, guarded, guard == "held-out")
    else:
        history = trainer.fit(x, y, **length, keep="last")
    return {
        "before": before,
        **guarded,
        **_accuracies(task, lambda part: 100 * trainer.evaluate(*part)["accuracy"]),
        "steps": trainer.step,
        "rate": trainer.measured_rate or run.learning_rate,
        "equivalents": probes + history.equivalents,
    }


def _chosen(task: Task, x: Any, y: Any, device: dict[str, Any]) -> dict[str, Any]:
    import tflm_zo as zo

    plain = load_model(task.model)
    if task.keras is not None:
        plain = with_old_statistics(plain, task.keras, task.calibration)

    def accuracy(model: Any, part: Any) -> float:
        return 100 * (zo.evaluate(model, *part).accuracy or 0.0)

    found = zo.adapt(plain, x, y, **device)
    assert found.choice is not None
    return {
        "before": accuracy(plain, task.test),
        **_accuracies(task, lambda part: accuracy(found.model, part)),
        "steps": found.trainer.step,
        "rate": found.choice.best.candidate.rate,
        "start": found.choice.best.candidate.start.name,
        "way": found.choice.best.candidate.rung,
        "equivalents": found.choice.equivalents + found.trainer.equivalents,
    }


def _fit_guarded(
    trainer: Any, x: Any, y: Any, length: dict[str, Any], test: Any, found: dict[str, float], holds_out: bool
) -> Any:
    """Trains, keeps the best state, and writes the results into `found`."""
    from tflm_zo.training import Callback
    from tflm_zo.training.run_data import held_out_samples

    class AtLast(Callback):
        def on_train_end(self, progress: Any) -> None:  # before the best state is put in place of the last
            found["last"] = 100 * progress.evaluate(*test)["accuracy"]

    if holds_out:
        held = held_out_samples(np.asarray(y), trainer.runtime.metadata.loss, HELD_OUT, 0)
        rest = np.setdiff1d(np.arange(len(y)), held)
        length = {**length, "validation_data": (x[held], y[held])}
        x, y = x[rest], y[rest]
    history = trainer.fit(x, y, **length, callbacks=[AtLast()])
    first, last = history.measurements[0], history.measurements[-1]
    worse = last["loss"] > first["loss"] or last["accuracy"] < first["accuracy"]
    found["kept_step"], found["ended_worse"] = history.kept_step, float(worse)
    return history


def _accuracies(task: Task, measure: Callable[[Any], float]) -> dict[str, float]:
    result = {"validation": measure(task.validation), "test": measure(task.test)}
    return result | ({"old": measure(task.old)} if task.old is not None else {})


def _backpropagate(task: Task, x: Any, y: Any, budget: float, seed: int, frozen_norm: bool) -> dict[str, float]:
    """Trains by backpropagation. A backward pass counts as two forward passes.

    Frozen batch norm equals that of the int8 model. Otherwise its statistics follow the new data; their
    moving averages over a hundred minibatches lag behind the weights.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras

    from tflm_zo.conversion.int8 import accuracy
    from tflm_zo.conversion.keras import convert

    if task.keras is None:
        raise ValueError("of this network the int8 model alone was published, so there is no float32 baseline")
    keras.utils.set_random_seed(seed)
    model = keras.models.load_model(task.keras, compile=False)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization) and frozen_norm:
            layer.trainable = False
    steps = max(1, int(budget / 3 / BATCH))
    rate = keras.optimizers.schedules.PolynomialDecay(1e-3, steps, 0.0)
    model.compile(optimizer=keras.optimizers.Adam(rate), loss="sparse_categorical_crossentropy")
    random, order = np.random.default_rng(seed), np.empty(0, int)
    for _ in range(steps):
        if len(order) < BATCH:
            order = np.concatenate([order, random.permutation(len(y))])
        chosen, order = order[:BATCH], order[BATCH:]
        model.train_on_batch(x[chosen].astype(np.float32), y[chosen])
    int8 = convert(model, np.concatenate([task.calibration[:150], x[:150]]).astype(np.float32)).model
    return {
        **_accuracies(task, lambda part: 100 * accuracy(int8, *part)),
        "steps": steps,
        "equivalents": 3.0 * BATCH * steps,
    }
