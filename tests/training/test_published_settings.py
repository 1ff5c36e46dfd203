"""Published settings of the papers' algorithms, one by one, against the defaults here.

One row a setting: its value here, the published one, the source, and the reason for a difference; the
registry (tflm_zo/training/algorithms.py) gives the same reasons.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from tflm_zo.converters import InjectSettings, Last
from tflm_zo.core import Coordinate, Gaussian, Rademacher, SparseUniform
from tflm_zo.training import ALGORITHMS, Settings, algorithm, inject_settings
from tflm_zo.training.lowering import layerwise_integers
from tflm_zo.training.setting_texts import names, resolve, without_effect
from tflm_zo.training.setting_texts import value_of as setting

PMT = "Poor Man's Training on MCUs (arXiv 2411.05873)"
QZO = "QZO-FF (Stepping Forward on the Last Mile)"
ELASTIC = "ElasticZO (arXiv 2501.04287)"
FQT = "On-Device Training of Fully Quantized DNNs (poster)"


@dataclass(frozen=True)
class Row:
    """A setting.

    Attributes:
        algorithm: by name.
        setting: of its options; "inject.NAME" of its injection.
        ours: its value here.
        published: the paper's, in the same words and units if it has them.
        source: paper and place.
        why: of a difference.
    """

    algorithm: str
    setting: str
    ours: Any
    published: Any
    source: str
    why: str = ""


NO_INTEGERS = "the paper's is of floating-point weights; here LSB count"

TABLE = [
    # --- Poor Man's Training ---
    Row("poor-mans-training", "estimator", "one-sided", "one-sided", f"{PMT}, sec. 3.1.1, eq. 8"),
    Row("poor-mans-training", "nodes.perturbation", 1, 1, f"{PMT}, sec. 4.1"),
    Row(
        "poor-mans-training",
        "weights.perturbation",
        Rademacher(1),
        Rademacher(1),
        f"{PMT}, sec. 3.4.2 and 4.1 (mu = 1)",
    ),
    Row("poor-mans-training", "schedule", "cosine", "cosine", f"{PMT}, sec. 4.1"),
    Row("poor-mans-training", "final_learning_rate", 0.0, 0.0, f"{PMT}, sec. 4.1 (cosine decay)"),
    Row("poor-mans-training", "nodes.rule", "gradient", "gradient", f"{PMT}, sec. 3.1.2, eq. 11"),
    Row("poor-mans-training", "weights.rule", "gradient", "gradient", f"{PMT}, sec. 3.1.2, eq. 11"),
    Row("poor-mans-training", "nodes.gradient_norm", True, True, f"{PMT}, sec. 3.1.2 (gradient-norm scaling)"),
    Row("poor-mans-training", "nodes.quantization_aware", True, True, f"{PMT}, sec. 3.1.2 (quantization-aware)"),
    Row(
        "poor-mans-training",
        "scope",
        "layers",
        "layers",
        f"{PMT}, sec. 3.2.2 (layer by layer; weights where they are fewer than nodes)",
    ),
    Row(
        "poor-mans-training",
        "inject.nodes",
        "auto",
        "auto",
        f"{PMT}, sec. 3.2.2 (nodes where they are fewer than weights)",
    ),
    Row("poor-mans-training", "inject.headroom", 1, 1, f"{PMT}, sec. 4.1 (mu = 1)"),
    Row(
        "poor-mans-training",
        "batch_size",
        96,
        100,
        f"{PMT}, sec. 4.1 (100 steps of accumulation)",
        "a minibatch is whole invokes of a model's batch, 32 where a command injects it: three of them",
    ),
    Row(
        "poor-mans-training",
        "nodes.queries",
        8,
        100,
        f"{PMT}, sec. 4.1 (50 on the device, sec. 4.3)",
        "a step has 32 at most (ZO_MAX_QUERIES), and a budget is good for four times as many steps of 8; "
        "nodes have directions of each sample's own, 768 in a minibatch",
    ),
    Row(
        "poor-mans-training",
        "learning_rate",
        0.04,
        0.1,
        f"{PMT}, sec. 4.1 (0.1 for FGVC, 0.01 for CIFAR-10-C)",
        "the largest at which no pre-training of LeNet-5 diverged on validation data",
    ),
    Row(
        "poor-mans-training",
        "step_clip",
        255.0,
        None,
        f"{PMT}, sec. 4.1 (no clipping)",
        "a step is always clipped, and 255 LSB is more than a weight can move",
    ),
    Row("poor-mans-training", "weights.clip", 0.0, 0.0, f"{PMT}, sec. 4.1 (no clipping)"),
    # --- QZO-FF ---
    Row("qzo-ff", "rule", "sign", "sign", f"{QZO}, sec. 3.2, Alg. 1 (sign-m-SPSA)"),
    Row("qzo-ff", "estimator", "antithetic", "antithetic", f"{QZO}, Alg. 1 (w + eps z against w - eps z)"),
    Row("qzo-ff", "inject.update_bits", 16, 16, f"{QZO}, sec. 4.3 (8-bit weights do not converge)"),
    Row("qzo-ff", "queries", 1, 1, f"{QZO}, Alg. 1 (m = 1: SPSA)"),
    Row(
        "qzo-ff",
        "weights.perturbation",
        Gaussian(1.0),
        1e-3,
        f"{QZO}, tables 6 to 9 (epsilon)",
        f"{NO_INTEGERS}, and in the forward pass weights have whole LSB",
    ),
    Row("qzo-ff", "inject.headroom", 4, None, QZO, "the reach of the Gaussian directions"),
    Row("qzo-ff-probe", "rule", "sign", "sign", f"{QZO}, sec. 3.2, Alg. 1"),
    Row("qzo-ff-probe", "inject.trainable", Last(1), Last(1), f"{QZO}, sec. 4 (linear probing)"),
    Row("qzo-ff-probe", "inject.int16", Last(1), Last(1), f"{QZO}, sec. 3.3 and 4.3 (16w8a)"),
    Row("qzo-ff-probe", "inject.update_bits", 16, 16, f"{QZO}, sec. 3.3 (16-bit weights)"),
    Row("qzo-ff-probe", "weights.perturbation", Gaussian(0.5), 1e-3, f"{QZO}, tables 6 to 9 (epsilon)", NO_INTEGERS),
    # --- ElasticZO ---
    Row("elastic-zo", "last", 1, 1, f"{ELASTIC}, sec. 5.1 (ZO-Feat-Cls2; ZO-Feat-Cls1 has 2)"),
    Row("elastic-zo", "scope", "model", "model", f"{ELASTIC}, Alg. 1 (one direction of all the layers before)"),
    Row("elastic-zo", "estimator", "antithetic", "antithetic", f"{ELASTIC}, Alg. 1 and eq. 1"),
    Row("elastic-zo", "batch_size", 32, 32, f"{ELASTIC}, sec. 5.1.1 (FP32 case)"),
    Row("elastic-zo", "weights.perturbation", Gaussian(1.0), "N(0, I) eps", f"{ELASTIC}, eq. 1", NO_INTEGERS),
    Row(
        "elastic-zo",
        "weights.rule",
        "normalized",
        "gradient",
        f"{ELASTIC}, Alg. 1 and sec. 5.1.1 (SGD with a clipped gradient, its rate tuned for each model)",
        "clipped at three times the differences' running RMS, which takes one rate for all models",
    ),
    Row(
        "elastic-zo",
        "schedule",
        "linear",
        "step",
        f"{ELASTIC}, sec. 5.1.1 (times 0.8 every 10 epochs, of 100)",
        "a rate that falls every so many steps needs the run's length, which is asked for later; the linear "
        "one falls to 0 by its end, the paper's to a ninth",
    ),
    Row("elastic-zo-int8", "batch_size", 256, 256, f"{ELASTIC}, sec. 5.1.1 (INT8 case)"),
    Row("elastic-zo-int8", "last", 1, 1, f"{ELASTIC}, Alg. 2"),
    Row("elastic-zo-int8", "scope", "model", "model", f"{ELASTIC}, Alg. 2"),
    Row("elastic-zo-int8", "exact.rule", "bits", "bits", f"{ELASTIC}, sec. 4.2, after NITI"),
    Row("elastic-zo-int8", "exact.bits", (5, 4, 3), (5, 4, 3), f"{ELASTIC}, sec. 5.1.1 (b_BP)"),
    Row("elastic-zo-int8", "weights.rule", "bits", "bits", f"{ELASTIC}, Alg. 2, lines 19 to 25"),
    Row("elastic-zo-int8", "weights.bits", 1, 1, f"{ELASTIC}, sec. 5.1.1 (b_ZO)"),
    Row(
        "elastic-zo-int8",
        "weights.perturbation",
        SparseUniform(15, 0.33),
        SparseUniform(15, 0.33),
        f"{ELASTIC}, sec. 5.1.1 (r_max of 1, 3, 7, 15, 31, 63; p_zero 0.33)",
    ),
    Row("elastic-zo-int8", "stages", (0.2, 0.5), (0.2, 0.5), f"{ELASTIC}, sec. 5.1.1 (epochs 20 and 50 of 100)"),
    Row("elastic-zo-int8", "stage_p_zero", (0.5, 0.9), (0.5, 0.9), f"{ELASTIC}, sec. 5.1.1"),
    Row("elastic-zo-int8", "inject.update_bits", 8, 8, f"{ELASTIC}, sec. 4.2 (INT8 weights alone)"),
    # --- FQT ---
    Row("fqt", "exact.rule", "standardized", "standardized", f"{FQT}, `Gradient Standardization`"),
    Row(
        "fqt",
        "rows",
        (0.1, 1.0),
        (0.1, 1.0),
        f"{FQT}, `Dynamic Sparse Gradients` (lambda_min of 0.1, 0.5, 1.0; lambda_max 1)",
    ),
    Row(
        "fqt",
        "last",
        2,
        "the last blocks",
        f"{FQT}, comparison on MCUNet-5FPS",
        "backpropagation goes through dense layers alone",
    ),
    Row(
        "fqt",
        "learning_rate",
        0.1,
        None,
        f"{FQT} (a learning rate l, no figure)",
        "the standard deviation of a layer's first step, in LSB; the figures of docs/results.md are with it",
    ),
    # --- baselines ---
    Row("mezo", "rule", "gradient", "gradient", f"{PMT}, sec. 4.2.3 (MeZO: RGE of the whole model)"),
    Row("mezo", "estimator", "antithetic", "antithetic", f"{PMT}, table 5 (MeZO: 2 forwards an iteration)"),
    Row("mezo", "queries", 1, 1, f"{PMT}, table 5 (MeZO: 2 forwards an iteration)"),
    Row("mezo", "clip", 0.0, 0.0, "MeZO (arXiv 2305.17333), Alg. 1 (no clipping)"),
    Row("mezo", "gradient_norm", False, False, f"{PMT}, sec. 4.2.3 (lack of learning-rate scaling)"),
    Row("mezo", "weights.perturbation", Gaussian(1.0), "N(0, I) eps", "MeZO (arXiv 2305.17333), def. 1", NO_INTEGERS),
    Row("mezo", "schedule", "constant", "constant", "MeZO (arXiv 2305.17333), sec. 3 (constant rate)"),
    Row(
        "mezo",
        "learning_rate",
        100.0,
        None,
        "MeZO (tuned for each model)",
        "LeNet-5 takes about 100 LSB^2 per nat (Settings)",
    ),
    Row("mezo", "inject.headroom", 4, None, "MeZO", "the reach of the Gaussian directions"),
    Row(
        "deepzero",
        "weights.perturbation",
        Coordinate(2),
        Coordinate(2),
        f"{PMT}, sec. 4.2.3 (DeepZero: coordinate-wise estimation)",
    ),
    Row(
        "deepzero",
        "scope",
        "layers",
        "all coordinates",
        f"{PMT}, table 5 (49,457 forwards an iteration)",
        "weights drawn at random, some of every layer a step: its summary says so",
    ),
    Row(
        "deepzero",
        "queries",
        32,
        "every weight",
        f"{PMT}, table 5",
        "weights drawn at random, some of every layer a step: its summary says so",
    ),
    Row("deepzero", "weights.perturbation", Coordinate(2), None, "DeepZero (arXiv 2310.02025)", NO_INTEGERS),
    Row(
        "deepzero",
        "weights.rule",
        "normalized",
        "gradient",
        "DeepZero (arXiv 2310.02025)",
        "finite differences of single weights differ between layers and along a run: over their running RMS "
        "one rate serves all layers",
    ),
    Row(
        "deepzero",
        "learning_rate",
        128.0,
        None,
        "DeepZero (arXiv 2310.02025)",
        "coordinates move one weight of each layer a query and need a rate of their own (Settings)",
    ),
]

PUBLISHED = sorted({row.algorithm for row in TABLE})


def value_of(row: Row) -> Any:
    chosen = algorithm(row.algorithm)
    if row.setting.startswith("inject."):
        return getattr(inject_settings(chosen), row.setting.removeprefix("inject."))
    name, dot, kind = row.setting.partition(".kind")
    value = setting(chosen, name)
    return value.kind if dot else value


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.algorithm} {row.setting}")
def test_setting(row: Row) -> None:
    assert value_of(row) == row.ours
    assert bool(row.why) == (row.ours != row.published), "a difference, and only a difference, has its reason"


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_default_has_its_row(name: str) -> None:
    """Compares the settings of a registry's entry with the table; a new default needs its source."""
    rows = {row.setting.removesuffix(".kind") for row in TABLE if row.algorithm == name}
    settings, plain = algorithm(name), Settings(tasks=tuple(type(t)() for t in algorithm(name).tasks))
    for one in names(settings):
        owner, field = resolve(settings, one)
        # Minibatches of 64 are this project's for all algorithms that perturb all weights at once. Layers and
        # words are rows of the injection.
        own = field in ("layers", "int16") or (field, settings.batch_size) == ("batch_size", 64)
        if own or without_effect(settings, one):
            continue
        if setting(settings, one) != setting(plain, one):
            bare = one.rpartition(".")[2]
            # If two tasks have a setting, a row is of both.
            assert {one, f"{owner}.{field}", bare, f"nodes.{bare}"} & rows or field == "headroom", one
    usual = InjectSettings()
    # How it is laid out in segments follows from its other settings, and so does headroom of 0.
    structural = {"trainable", "nodes", "tail", "cuts", "replay", "int16", "algorithm"}
    for key, value in vars(inject_settings(settings)).items():
        reach = key == "headroom" and value == max(2, settings.reach)
        if key not in structural and value not in (0, getattr(usual, key)) and not reach:
            assert f"inject.{key}" in rows


def test_the_table_has_every_algorithm_of_a_paper() -> None:
    own = {"node", "weight", "layer"}  # defaults of this project, measured in docs/results.md
    assert set(PUBLISHED) == set(ALGORITHMS) - own


def test_sparsity_is_the_papers_within_a_256th() -> None:
    run = algorithm("elastic-zo-int8")
    integers = layerwise_integers(run, steps=100, samples=1024, batch=32)
    assert list(integers.stage_steps) == [20, 50]
    found = [run.weights.perturbation.p_zero, *integers.stage_p_zero]
    assert [abs(n / 256 - p) < 1 / 512 for n, p in zip(found, (0.33, 0.5, 0.9), strict=True)] == [True] * 3


def test_momentum_and_sharpness_are_off_as_in_the_plain_algorithm() -> None:
    """Requires names for enhancements (QZO-FF, sec. 3.4)."""
    run = algorithm("qzo-ff")
    assert (run.weights.momentum, run.weights.sharpness) == (None, False)


def test_sources_name_a_place() -> None:
    for row in TABLE:
        assert re.search(r"sec\.|eq\.|table|Alg\.|def\.|`|\(|QZO|MeZO|FQT", row.source), row
