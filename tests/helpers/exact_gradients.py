# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Errors of an exact tail, as the core leads them back, against float64's."""

from __future__ import annotations

import numpy as np

from helpers.oracle.gradients import layer_gradients
from tflm_zo.converters import load_model
from tflm_zo.core import NodeControl, samples_in_order
from tflm_zo.training import Exact, Settings, Trainer, inject_for


def samples(model, count, seed, loss="cross_entropy"):
    """Random samples with labels as a loss takes them."""
    graph, rng = model.subgraphs[0], np.random.default_rng(seed)
    x = rng.integers(-128, 128, (count, *graph.inputs[0].shape[1:])).astype(np.int8)
    output = graph.outputs[0].shape
    if loss == "cross_entropy":
        return x, rng.integers(0, output[-1], count).astype(np.int32)
    if loss == "binary_cross_entropy":
        return x, rng.integers(-1, 2, (count, *output[1:])).astype(np.int32)
    return x, rng.integers(-128, 128, (count, *output[1:])).astype(np.int8)


class Spy:
    """Errors and exponents of the tail's tasks in the first step, [samples, ...], by the layers' filters."""

    def __init__(self, monkeypatch):
        self.errors: dict[int, np.ndarray] = {}
        lead_back = NodeControl.lead_back

        def recorded(control, sources):
            lead_back(control, sources)
            for task, field in control._backward._program.of_tasks.items():
                errors, exponents = control._backward.fields[field]
                self.errors.setdefault(task, errors * 2.0 ** exponents[:, None])

        monkeypatch.setattr(NodeControl, "lead_back", recorded)


def cosine(a, b):
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def check_gradients(source, last, monkeypatch, loss="cross_entropy", count=4, seed=5):
    """Errors of every layer and sample, from those of the head, whose unit is 2^-15."""
    plain = load_model(source)
    x, y = samples(plain, count, seed, loss)
    settings = Settings(tasks=(Exact(last=last),), batch_size=count, learning_rate=1.0, seed=3)
    trainer = Trainer(inject_for(plain, settings, loss=loss), settings, "litert")
    spy = Spy(monkeypatch)
    trainer.fit(x, y, steps=1, keep="last")
    metadata = trainer.runtime.metadata
    names = [metadata.trainable[n.trainable].name for n in metadata.tail.layers]
    assert sorted(spy.errors) == list(range(len(names)))
    drawn = samples_in_order(settings.seed, count, count)
    expected = layer_gradients(plain, x[drawn], spy.errors[len(names) - 1] * 2.0**-15)
    for task, name in enumerate(names):
        found, exact = spy.errors[task] * 2.0**-15, expected[name]
        assert np.abs(exact).max() > 0
        for a, b in zip(found, exact, strict=True):
            assert not b.any() or cosine(a, b) > 0.9999, name
        assert abs(np.linalg.norm(found) / np.linalg.norm(exact) - 1) < 0.005, name
