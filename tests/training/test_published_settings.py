"""Published settings of the papers' algorithms, one row each: value here, published value, source, reason."""

import re
from typing import Any, NamedTuple

import pytest

from tflm_zo.converters import InjectSettings
from tflm_zo.core import Coordinate, Gaussian, Rademacher, SparseUniform
from tflm_zo.training import ALGORITHMS, Settings, algorithm, inject_settings
from tflm_zo.training.lowering import layerwise_integers
from tflm_zo.training.setting_texts import names, resolve, without_effect
from tflm_zo.training.setting_texts import value_of as setting

PMT = "Poor Man's Training on MCUs (arXiv 2411.05873)"
QZO = "QZO-FF (Stepping Forward on the Last Mile)"
ELASTIC = "ElasticZO (arXiv 2501.04287)"
FQT = "On-Device Training of Fully Quantized DNNs (poster)"


class Row(NamedTuple):
    """A setting ("inject.NAME": of its injection), its value here, the paper's, and paper and place."""

    setting: str
    ours: Any
    published: Any
    source: str


NO_INTEGERS = "the paper's is of floating-point weights; here LSB count"

TABLE = {
    "poor-mans-training": (
        Row("estimator", "one-sided", "one-sided", f"{PMT}, sec. 3.1.1, eq. 8"),
        Row("nodes.perturbation", 1, 1, f"{PMT}, sec. 4.1"),
        Row("weights.perturbation", Rademacher(1), Rademacher(1), f"{PMT}, sec. 3.4.2 and 4.1 (mu = 1)"),
        Row("schedule", "cosine", "cosine", f"{PMT}, sec. 4.1"),
        Row("final_learning_rate", 0.0, 0.0, f"{PMT}, sec. 4.1 (cosine decay)"),
        Row("nodes.rule", "gradient", "gradient", f"{PMT}, sec. 3.1.2, eq. 11"),
        Row("weights.rule", "gradient", "gradient", f"{PMT}, sec. 3.1.2, eq. 11"),
        Row("nodes.gradient_norm", True, True, f"{PMT}, sec. 3.1.2 (gradient-norm scaling)"),
        Row("nodes.quantization_aware", True, True, f"{PMT}, sec. 3.1.2 (quantization-aware)"),
        Row("scope", "layers", "layers", f"{PMT}, sec. 3.2.2 (layer by layer; weights if fewer than nodes)"),
        Row("inject.nodes", "auto", "auto", f"{PMT}, sec. 3.2.2 (nodes where they are fewer than weights)"),
        Row("inject.headroom", 1, 1, f"{PMT}, sec. 4.1 (mu = 1)"),
        Row("batch_size", 96, 100, f"{PMT}, sec. 4.1 (100 steps of accumulation)"),
        Row("nodes.queries", 8, 100, f"{PMT}, sec. 4.1 (50 on the device, sec. 4.3)"),
        Row("learning_rate", 0.04, 0.1, f"{PMT}, sec. 4.1 (0.1 for FGVC, 0.01 for CIFAR-10-C)"),
        Row("step_clip", 255.0, None, f"{PMT}, sec. 4.1 (no clipping)"),
        Row("weights.clip", 0.0, 0.0, f"{PMT}, sec. 4.1 (no clipping)"),
    ),
    "qzo-ff": (
        Row("rule", "sign", "sign", f"{QZO}, sec. 3.2, Alg. 1 (sign-m-SPSA)"),
        Row("estimator", "antithetic", "antithetic", f"{QZO}, Alg. 1 (w + eps z against w - eps z)"),
        Row("inject.update_bits", 16, 16, f"{QZO}, sec. 4.3 (8-bit weights do not converge)"),
        Row("queries", 1, 1, f"{QZO}, Alg. 1 (m = 1: SPSA)"),
        Row("weights.perturbation", Gaussian(1.0), 0.001, f"{QZO}, tables 6 to 9 (epsilon)"),
        Row("inject.headroom", 4, None, QZO),
    ),
    "elastic-zo": (
        Row("last", 1, 1, f"{ELASTIC}, sec. 5.1 (ZO-Feat-Cls2; ZO-Feat-Cls1 has 2)"),
        Row("scope", "model", "model", f"{ELASTIC}, Alg. 1 (one direction of all the layers before)"),
        Row("estimator", "antithetic", "antithetic", f"{ELASTIC}, Alg. 1 and eq. 1"),
        Row("batch_size", 32, 32, f"{ELASTIC}, sec. 5.1.1 (FP32 case)"),
        Row("weights.perturbation", Gaussian(1.0), "N(0, I) eps", f"{ELASTIC}, eq. 1"),
        Row(
            "weights.rule",
            "normalized",
            "gradient",
            f"{ELASTIC}, Alg. 1 and sec. 5.1.1 (SGD, clipped, tuned for each model)",
        ),
        Row("schedule", "linear", "step", f"{ELASTIC}, sec. 5.1.1 (times 0.8 every 10 epochs, of 100)"),
    ),
    "elastic-zo-int8": (
        Row("batch_size", 256, 256, f"{ELASTIC}, sec. 5.1.1 (INT8 case)"),
        Row("last", 1, 1, f"{ELASTIC}, Alg. 2"),
        Row("scope", "model", "model", f"{ELASTIC}, Alg. 2"),
        Row("exact.rule", "bits", "bits", f"{ELASTIC}, sec. 4.2, after NITI"),
        Row("exact.bits", (5, 4, 3), (5, 4, 3), f"{ELASTIC}, sec. 5.1.1 (b_BP)"),
        Row("weights.rule", "bits", "bits", f"{ELASTIC}, Alg. 2, lines 19 to 25"),
        Row("weights.bits", 1, 1, f"{ELASTIC}, sec. 5.1.1 (b_ZO)"),
        Row(
            "weights.perturbation",
            SparseUniform(15, 0.33),
            SparseUniform(15, 0.33),
            f"{ELASTIC}, sec. 5.1.1 (r_max of 1 to 63)",
        ),
        Row("stages", (0.2, 0.5), (0.2, 0.5), f"{ELASTIC}, sec. 5.1.1 (epochs 20 and 50 of 100)"),
        Row("stage_p_zero", (0.5, 0.9), (0.5, 0.9), f"{ELASTIC}, sec. 5.1.1"),
        Row("inject.update_bits", 8, 8, f"{ELASTIC}, sec. 4.2 (INT8 weights alone)"),
    ),
    "fqt": (
        Row("exact.rule", "standardized", "standardized", f"{FQT}, `Gradient Standardization`"),
        Row("rows", (0.1, 1.0), (0.1, 1.0), f"{FQT}, `Dynamic Sparse Gradients` (lambda_min of 0.1 to 1.0)"),
        Row("last", 2, "the last blocks", f"{FQT}, comparison on MCUNet-5FPS"),
        Row("learning_rate", 0.1, None, f"{FQT} (a learning rate l, no figure)"),
    ),
    "mezo": (
        Row("rule", "gradient", "gradient", f"{PMT}, sec. 4.2.3 (MeZO: RGE of the whole model)"),
        Row("estimator", "antithetic", "antithetic", f"{PMT}, table 5 (MeZO: 2 forwards an iteration)"),
        Row("queries", 1, 1, f"{PMT}, table 5 (MeZO: 2 forwards an iteration)"),
        Row("clip", 0.0, 0.0, "MeZO (arXiv 2305.17333), Alg. 1 (no clipping)"),
        Row("gradient_norm", False, False, f"{PMT}, sec. 4.2.3 (lack of learning-rate scaling)"),
        Row("weights.perturbation", Gaussian(1.0), "N(0, I) eps", "MeZO (arXiv 2305.17333), def. 1"),
        Row("schedule", "constant", "constant", "MeZO (arXiv 2305.17333), sec. 3 (constant rate)"),
        Row("learning_rate", 100.0, None, "MeZO (tuned for each model)"),
        Row("inject.headroom", 4, None, "MeZO"),
    ),
    "deepzero": (
        Row("weights.perturbation", Coordinate(2), Coordinate(2), f"{PMT}, sec. 4.2.3 (coordinate-wise)"),
        Row("scope", "layers", "all coordinates", f"{PMT}, table 5 (49,457 forwards an iteration)"),
        Row("queries", 32, "every weight", f"{PMT}, table 5"),
        Row("weights.rule", "normalized", "gradient", "DeepZero (arXiv 2310.02025)"),
        Row("learning_rate", 128.0, None, "DeepZero (arXiv 2310.02025)"),
    ),
}

# Of the rows that differ from the paper.
REASONS: dict[str, dict[str, str]] = {
    "poor-mans-training": {
        "batch_size": "a minibatch is whole invokes of a model's batch, 32 where a command injects it: three of them",
        "nodes.queries": "a step has 32 at most (ZO_MAX_QUERIES), and a budget is good for four times as many steps "
        "of 8; nodes have directions of each sample's own, 768 in a minibatch",
        "learning_rate": "the largest at which no pre-training of LeNet-5 diverged on validation data",
        "step_clip": "a step is always clipped, and 255 LSB is more than a weight can move",
    },
    "qzo-ff": {
        "weights.perturbation": f"{NO_INTEGERS}, and in the forward pass weights have whole LSB",
        "inject.headroom": "the reach of the Gaussian directions",
    },
    "elastic-zo": {
        "weights.perturbation": NO_INTEGERS,
        "weights.rule": "clipped at three times the differences' running RMS, which takes one rate for all models",
        "schedule": "a rate that falls every so many steps needs the run's length, which is asked for later; "
        "the linear one falls to 0 by its end, the paper's to a ninth",
    },
    "fqt": {
        "last": "a number of layers, which networks without blocks have, too",
        "learning_rate": "the deviation of a layer's first step, in LSB; the figures of docs/results.md are with it",
    },
    "mezo": {
        "weights.perturbation": NO_INTEGERS,
        "learning_rate": "LeNet-5 takes about 100 LSB^2 per nat (Settings)",
        "inject.headroom": "the reach of the Gaussian directions",
    },
    "deepzero": {
        "scope": "weights drawn at random, some of every layer a step: its summary says so",
        "queries": "weights drawn at random, some of every layer a step: its summary says so",
        "weights.rule": "finite differences of single weights differ between layers and along a run: "
        "over their running RMS one rate serves all layers",
        "learning_rate": "coordinates move one weight of each layer a query and need a rate of their own (Settings)",
    },
}


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, rows in TABLE.items() for row in rows], ids=str)
def test_setting(name: str, row: Row) -> None:
    chosen, one = algorithm(name), row.setting
    injected = one.startswith("inject.")
    found = getattr(inject_settings(chosen), one.removeprefix("inject.")) if injected else setting(chosen, one)
    assert found == row.ours
    given = one in REASONS.get(name, {})
    assert given == (row.ours != row.published), "a difference, and only a difference, has its reason"


@pytest.mark.parametrize("name", TABLE)
def test_every_default_has_its_row(name: str) -> None:
    """Compares the settings of a registry's entry with the table; a new default needs its source."""
    rows = {row.setting for row in TABLE[name]}
    settings, plain = algorithm(name), Settings(tasks=tuple(type(t)() for t in algorithm(name).tasks))
    for one in names(settings):
        owner, field = resolve(settings, one)
        # Minibatches of 32 are this project's where a paper names none, and of 64 for all algorithms that perturb
        # all weights at once. Layers and words are rows of the injection.
        own = field == "layers" or (field == "batch_size" and settings.batch_size in (32, 64))
        if own or without_effect(settings, one):
            continue
        if setting(settings, one) != setting(plain, one):
            bare = one.rpartition(".")[2]
            # If two tasks have a setting, a row is of both.
            assert {one, f"{owner}.{field}", bare, f"nodes.{bare}"} & rows or field == "headroom", one
    usual = InjectSettings()
    # How it is laid out in segments follows from its other settings, and so does headroom of 0.
    structural = {"trainable", "nodes", "tail", "cuts", "replay", "algorithm"}
    for key, value in vars(inject_settings(settings)).items():
        reach = key == "headroom" and value == max(2, settings.reach)
        if key not in structural and value not in (0, getattr(usual, key)) and not reach:
            assert f"inject.{key}" in rows


def test_the_table_has_every_algorithm_of_a_paper() -> None:
    own = {"node", "weight", "layer", "exact"}  # defaults of this project, measured in docs/results.md
    assert set(TABLE) == set(ALGORITHMS) - own


def test_sparsity_is_the_papers_within_a_256th() -> None:
    run = algorithm("elastic-zo-int8")
    integers = layerwise_integers(run, steps=100, samples=1024, batch=32)
    assert list(integers.stage_steps) == [20, 50]
    found = [run.weights.perturbation.p_zero, *integers.stage_p_zero]
    assert [abs(n / 256 - p) < 1 / 512 for n, p in zip(found, (0.33, 0.5, 0.9), strict=True)] == [True] * 3


def test_sources_name_a_place() -> None:
    for row in (row for rows in TABLE.values() for row in rows):
        assert re.search(r"sec\.|eq\.|table|Alg\.|def\.|`|\(|QZO|MeZO|FQT", row.source), row
