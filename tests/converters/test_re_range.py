"""New scales of trained filters against float64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.injection import inject_all
from helpers.models import MODELS, GraphBuilder, shared_filters
from helpers.models.graph_builder import Activation
from tflm_zo.converters import (
    ConversionError,
    Model,
    export_model,
    initial_weights,
    load_model,
    possible_cuts,
    read_metadata,
)
from tflm_zo.converters.model import Operator

KINDS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
Arrays = dict[str, np.ndarray]


def layers(model: Model) -> list[Operator]:
    return [op for op in model.subgraphs[0].operators if op.code.name in KINDS]


def axis_of(op: Operator) -> int:
    return 3 if op.code.name == "DEPTHWISE_CONV_2D" else 0


def scales_of(op: Operator) -> Any:
    w = op.inputs[1]
    assert w is not None and w.quantization is not None
    shape = [1] * len(w.shape)
    shape[axis_of(op)] = w.shape[axis_of(op)]
    return np.broadcast_to(w.quantization.scales.astype(np.float64), shape[axis_of(op)]).reshape(shape)


def trained(zo: Model, seed: int) -> tuple[Arrays, Arrays]:
    """Draws weights and fractions whose channels have ranges of every size, some of them none."""
    rng = np.random.default_rng(seed)
    weights, fractions = {}, {}
    for t in read_metadata(zo).trainable:
        reach = 125 * rng.choice([0, 0.02, 0.2, 0.5, 1], t.channels)
        if rng.random() < 0.1:
            reach[:] = 0
        shape = [1] * len(t.shape)
        shape[3 if t.operator == "DEPTHWISE_CONV_2D" else 0] = t.channels
        in_256ths = np.rint(rng.uniform(-256, 256, t.shape) * reach.reshape(shape)).astype(int)
        weights[t.name] = ((in_256ths + 128) >> 8).astype(np.int8)
        fractions[t.name] = (in_256ths - 256 * weights[t.name].astype(int)).astype(np.int8)
    return weights, fractions


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(set(MODELS) - {"lenet5"})), seed=st.integers(0, 2**31), with_fractions=st.booleans())
def test_real_values_stay(name: str, seed: int, with_fractions: bool) -> None:
    zo = inject_all(MODELS[name](seed=seed))  # type: ignore[call-arg]
    weights, fractions = trained(zo, seed)
    plain = export_model(zo, weights)
    given_fractions = fractions if with_fractions else None
    ranged = load_model(export_model(zo, weights, fractions=given_fractions, re_range=True).to_bytes())
    trainable = {t.name for t in read_metadata(zo).trainable}
    for old, new in zip(layers(plain), layers(ranged), strict=True):
        x, w, b = old.input(0), old.input(1), old.input(2)
        v, c = new.input(1), new.input(2)
        assert x is not None and w is not None and v is not None and x.quantization is not None
        assert w.name == v.name
        if v.name not in trainable:  # the loss does not read it
            assert w.buffer.data == v.buffer.data and scales_of(old).tolist() == scales_of(new).tolist()
            continue
        levels = w.numpy() + (fractions[w.name] / 256 if with_fractions else 0.0)
        s_old, s_new = scales_of(old), scales_of(new)
        assert (np.abs(v.numpy() * s_new - levels * s_old) <= s_new / 2 * (1 + 1e-9)).all()

        others = tuple(i for i in range(levels.ndim) if i != axis_of(old))
        most = np.abs(levels).max(axis=others)
        if len(w.quantization.scales) == 1:  # type: ignore[union-attr]
            most = np.full_like(most, most.max())
            reached = np.full_like(most, np.abs(v.numpy().astype(int)).max())
        else:
            reached = np.abs(v.numpy().astype(int)).max(axis=others)
        # All of int8 is used, by channels that are anything at all.
        assert (reached[most > 0] == 127).all()
        assert (s_new.ravel()[most == 0] == s_old.ravel()[most == 0]).all()
        np.testing.assert_allclose(s_new.ravel()[most > 0], (s_old.ravel() * most / 127)[most > 0], rtol=1e-6)
        if b is None:
            assert c is None
            continue
        assert c is not None and c.quantization is not None
        before = b.numpy() * (x.quantization.scale * s_old.ravel())
        unit = x.quantization.scale * s_new.ravel()
        assert (np.abs(c.numpy() * unit - before) <= unit / 2 * (1 + 1e-9)).all()
        np.testing.assert_allclose(np.broadcast_to(c.quantization.scales, unit.shape), unit, rtol=1e-6)


def test_cuts_change_nothing(built: bytes) -> None:
    whole = inject_all(built)
    weights, fractions = trained(whole, 1)
    options: dict[str, Any] = {"fractions": fractions, "re_range": True}
    before = whole.to_bytes()
    expected = export_model(whole, weights, **options).to_bytes()
    assert whole.to_bytes() == before
    names = possible_cuts(load_model(built))
    cut = inject_all(built, cuts=names)
    found = export_model(cut.to_bytes(), weights, **options).to_bytes()

    def constants(data: bytes) -> dict[str, Any]:
        tensors = load_model(data).subgraphs[0].all_tensors()
        return {
            t.name: (t.buffer.data, t.quantization.scales.tolist() if t.quantization else None)
            for t in tensors
            if t.is_constant
        }

    assert constants(found) == constants(expected)


def one_layer(bias: int, per_channel: bool) -> bytes:
    """Builds five channels; the bias of the second one is given."""
    g = GraphBuilder(4)
    source = g.build([g.dense(g.input("x", [1, 6]), "fc", 5, Activation.NONE, per_channel=per_channel)])
    model = load_model(source)
    tensor = layers(model)[0].inputs[2]
    assert tensor is not None
    values = tensor.numpy().copy()
    values[1] = bias
    tensor.set_data(values)
    return model.to_bytes()


@pytest.mark.parametrize("per_channel", [True, False])
def test_what_would_overflow_keeps_its_scale(per_channel: bool) -> None:
    """Weights of one LSB make units 127 times as fine: too fine for a bias of 2^25."""
    for bias, kept in ((2**23, False), (2**25, True), (-(2**25), True)):
        zo = inject_all(one_layer(bias, per_channel), headroom=0, loss="cross_entropy")
        name = read_metadata(zo).trainable[0].name
        weights = {name: np.ones((5, 6), np.int8)}
        (old,), (new,) = (layers(export_model(zo, weights, re_range=r)) for r in (False, True))
        changed = (scales_of(new) != scales_of(old)).ravel()
        if per_channel:
            assert changed.tolist() == [True, not kept, True, True, True]
        else:
            assert changed.tolist() == [not kept] * 5
        same = ~changed
        for i in (1, 2):
            np.testing.assert_array_equal(new.inputs[i].numpy()[same], old.inputs[i].numpy()[same])  # type: ignore[union-attr]
        assert (np.abs(new.inputs[1].numpy())[changed] == 127).all()  # type: ignore[union-attr]


def test_sums_that_would_overflow_keep_their_scale() -> None:
    """Builds one layer below 2^31 / (127 * 255) = 66,311 products and one above."""
    for depth, kept in ((66_000, False), (66_400, True)):
        g = GraphBuilder(4)
        x = g.dense(g.input("x", [1, depth]), "fc", 2, Activation.NONE, bias=False)
        zo = inject_all(g.build([x]), headroom=0, loss="cross_entropy")
        name = read_metadata(zo).trainable[0].name
        weights = {name: np.full((2, depth), 64, np.int8)}
        (old,), (new,) = (layers(export_model(zo, weights, re_range=r)) for r in (False, True))
        assert (scales_of(new) == scales_of(old)).all() == kept
        assert (new.inputs[1].numpy() == (64 if kept else 127)).all()  # type: ignore[union-attr]


@pytest.mark.parametrize("share_tensor", [False, True])
def test_a_bias_that_others_read_is_copied(share_tensor: bool) -> None:
    zo = inject_all(shared_filters(share_tensor), trainable="a", headroom=0, loss="mse")
    name = read_metadata(zo).trainable[0].name
    weights = {name: initial_weights(zo)[name] // 3}
    old, new = export_model(zo, weights), export_model(zo, weights, re_range=True)
    for i in (1, 2):
        a, b = layers(old)[1].inputs[i], layers(new)[1].inputs[i]
        assert a.buffer.data == b.buffer.data  # type: ignore[union-attr]
        np.testing.assert_array_equal(a.quantization.scales, b.quantization.scales)  # type: ignore[union-attr]
    assert layers(new)[0].inputs[2].buffer.data != layers(new)[1].inputs[2].buffer.data  # type: ignore[union-attr]


def test_errors() -> None:
    zo = inject_all(MODELS["small_cnn"]())
    weights, fractions = trained(zo, 0)
    with pytest.raises(ConversionError, match="`fractions` must be given only with new ranges, because an int8 model"):
        export_model(zo, weights, fractions=fractions)
    with pytest.raises(ConversionError, match="`fractions` must name trainable filter tensors .* Received"):
        export_model(zo, weights, fractions={"nowhere": fractions["fc/filter"]}, re_range=True)
    with pytest.raises(ConversionError, match=r"fractions: `fc/filter` needs int8 \[4, 64\], not int16"):
        export_model(zo, fractions={"fc/filter": np.zeros((4, 64), np.int16)}, re_range=True)
