"""Sparse masks: the selected weights, the masks in the model, and the other weights unchanged."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from helpers.commands import run
from helpers.injection import inject_all
from helpers.models import MODELS
from tflm_zo.cli.set_option import parse_sparse
from tflm_zo.converters import (
    ConversionError,
    InjectSettings,
    Model,
    Random,
    Threshold,
    TopK,
    export_model,
    initial_weights,
    load_model,
    read_metadata,
    update_masks,
)
from tflm_zo.converters.selections import Sparse
from tflm_zo.core import Rademacher
from tflm_zo.runtime import load
from tflm_zo.training import SettingsError

weights = npst.arrays(np.int8, st.integers(1, 300), elements=st.integers(-127, 127))


def selected(model: Model) -> dict[str, np.ndarray]:
    """Reads masks by filter tensor name, bool in its shape, from their bytes."""
    masks, found = update_masks(model), {}
    for t in read_metadata(model).trainable:
        data = masks.get(t.name)
        bits = [True] * t.size if data is None else [bool(data[i // 8] >> (i % 8) & 1) for i in range(t.size)]
        found[t.name] = np.array(bits).reshape(t.shape)
    return found


# --- rules ------------------------------------------------------------------------------------------------


@given(weights, st.floats(0.0, 1.0, exclude_min=True))
def test_top_k(values: np.ndarray, share: float) -> None:
    chosen = TopK(share).select(values, 0)
    count = max(1, int(share * values.size + 0.5))
    order = sorted(range(values.size), key=lambda i: (-abs(int(values[i])), i))
    assert np.flatnonzero(chosen).tolist() == sorted(order[:count])


@given(weights, st.integers(1, 127))
def test_threshold(values: np.ndarray, level: int) -> None:
    wanted = [abs(int(v)) >= level for v in values]
    if any(wanted):
        assert Threshold(level).select(values, 0).tolist() == wanted
    else:
        with pytest.raises(ConversionError, match=f"no weight reaches {level} LSB"):
            Threshold(level).select(values, 0)


def test_random_is_uniform_and_the_seeds_own() -> None:
    values = np.zeros(200, np.int8)
    table = np.array([Random(0.25, seed).select(values, 0) for seed in range(2000)])
    assert (table.sum(axis=1) == 50).all()
    assert np.abs(table.mean(axis=0) - 0.25).max() < 5 * (0.25 * 0.75 / 2000) ** 0.5
    together = (table[:, :-1] & table[:, 1:]).mean()
    assert abs(together - 0.25 * 49 / 199) < 0.005
    assert len({row.tobytes() for row in table}) == 2000
    assert np.array_equal(Random(0.25, 7).select(values, 0), table[7])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("top-k:0.1", TopK(0.1)),
        ("top-k:1", TopK(1)),
        ("top-k:1.0", TopK(1.0)),
        ("random:500", Random(500)),
        ("random:1e-3", Random(0.001)),
        ("threshold:127", Threshold(127)),
    ],
)
def test_text(text: str, rule: Sparse) -> None:
    found = parse_sparse(text)
    assert found == rule and repr(found) == repr(rule)  # a count of 1 is no share of 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "top-k:NUMBER"),
        ("top-k", "top-k:NUMBER"),
        ("top:0.1", "top-k:NUMBER"),
        *(
            (text, r"`sparse` must be a share like 0\.1 \(at most 1\.0\) or a count like 100")
            for text in ("top-k:0", "top-k:0.0", "top-k:1.5", "random:-1", "random:nan")
        ),
        ("random:many", "random:NUMBER or threshold:LSB"),
        *((f"threshold:{n}", rf"`sparse` must be an integer in 1\.\.127\. Received: {n}") for n in (0, 128, 0.5)),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_sparse(text)


def test_bad_seeds_and_nodes() -> None:
    with pytest.raises(ConversionError, match=r"`seed` must be an integer in 0\.\.4294967295"):
        Random(0.5, seed=-1)
    with pytest.raises(SettingsError, match=r"`sparse_seed` must be an integer in 0\.\.4294967295"):
        parse_sparse("random:0.5", -1)
    for text in ("top-k:0.5", "threshold:3", None):
        with pytest.raises(SettingsError, match="`sparse_seed` must be 0 unless weights are chosen at random"):
            parse_sparse(text, 1)
    with pytest.raises(ConversionError, match="`sparse` must be None where nodes or exact gradients train all weights"):
        InjectSettings(sparse=Random(0.5), nodes="auto")


# --- models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["small_cnn", "depth_multiplier"])
@pytest.mark.parametrize("sparse", [TopK(0.3), Random(7), Threshold(60)], ids=str)
@pytest.mark.parametrize("headroom", [0, 40])
def test_what_the_model_carries(name: str, sparse: Sparse, headroom: int) -> None:
    model = load_model(inject_all(MODELS[name](), sparse=sparse, headroom=headroom, cuts=()).to_bytes())
    masks, start = selected(model), initial_weights(model)
    for t in read_metadata(model).trainable:
        assert t.trained == t.updated == masks[t.name].sum()
        sizes = np.abs(start[t.name].astype(int))
        if isinstance(sparse, TopK):
            assert t.updated == int(0.3 * t.size + 0.5)
            assert sizes[masks[t.name]].min() >= sizes[~masks[t.name]].max()
        elif isinstance(sparse, Random):
            assert t.updated == 7
        else:
            assert np.array_equal(masks[t.name], sizes >= 60)
    if not isinstance(sparse, Random):
        return
    seeds = [selected(inject_all(MODELS[name](), sparse=Random(7, s))) for s in (0, 1)]
    assert any(not np.array_equal(seeds[0][k], seeds[1][k]) for k in seeds[0])


def test_layers_choose_independently() -> None:
    """With one seed for all, weights of the same number would be chosen together."""
    masks = [m.reshape(-1) for m in selected(inject_all(MODELS["lenet5"](), sparse=Random(0.5))).values()]
    for one, other in itertools.combinations(masks, 2):
        both = min(len(one), len(other))
        assert 0.35 < (one[:both] == other[:both]).mean() < 0.65


def test_masks_of_ones_own() -> None:
    """Layers without a mask, and layers whose mask selects all, have none in the model."""
    mask = np.random.default_rng(0).random((4, 3, 3, 1)) < 0.5
    model = inject_all(MODELS["small_cnn"](), sparse={"conv/filter": mask})
    assert list(update_masks(model)) == ["conv/filter"]
    assert np.array_equal(selected(model)["conv/filter"], mask)
    assert [t.updated for t in read_metadata(model).trainable] == [mask.sum(), None]
    runtime = load(model, "litert")
    before = {name: w.copy() for name, w in runtime.read_weights().items()}
    runtime.invoke(runtime.command(loss=False).perturb([(5, 1)], Rademacher(1)))
    moved = {name: w != before[name] for name, w in runtime.read_weights().items()}
    assert np.array_equal(moved["conv/filter"], mask) and moved["fc/filter"].all()
    whole = inject_all(MODELS["small_cnn"](), sparse={"conv/filter": np.ones_like(mask)})
    assert whole.to_bytes() == inject_all(MODELS["small_cnn"]()).to_bytes()


@pytest.mark.parametrize(
    ("sparse", "message"),
    [
        (TopK(37), "layer `conv`: it has 36 weights, not 37"),
        (Random(300), "layer `conv`: it has 36 weights, not 300"),
        ({"conv": np.ones((4, 3, 3, 1), bool)}, r"must name trainable filter tensors \(conv/filter, fc/filter\)"),
        ({"conv/filter": np.ones(36, bool)}, r"a bool \[4, 3, 3, 1\] for `conv/filter`, not bool \[36\]"),
        ({"conv/filter": np.ones((4, 3, 3, 1))}, r"a bool \[4, 3, 3, 1\] for `conv/filter`, not float64 \[4, 3"),
        ({"conv/filter": np.zeros((4, 3, 3, 1), bool)}, "`sparse` must select a weight of `conv/filter`"),
    ],
)
def test_refusals(sparse: Any, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        inject_all(MODELS["small_cnn"](), sparse=sparse)


def test_export_leaves_nothing_of_them() -> None:
    original = load_model(MODELS["small_cnn"]())
    zo = inject_all(original, sparse=TopK(0.1), headroom=0)
    assert export_model(zo).to_bytes() == export_model(inject_all(original, headroom=0)).to_bytes()


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "plain.tflite").write_bytes(MODELS["small_cnn"]())
    given = ("inject", tmp_path / "plain.tflite", "-o", tmp_path / "zo.tflite", "--sparse", "random:0.5")
    assert "146 weights" in run(*given, "--algorithm", "weight").stdout  # (36 + 256) / 2
