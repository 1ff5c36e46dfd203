"""Updates from nodes at sizes at which the core takes another way, against the oracle."""

import numpy as np
import pytest

from helpers.examples import slow_but
from helpers.nodes import NodeRule, route_nodes, update_from_nodes
from helpers.oracle import node_rules as oracle
from helpers.oracle import nodes
from helpers.oracle.node_draws import native, outputs_of
from tflm_zo.core import NodeState

ONE = 65536


def layer(form, inputs, kernel, out_c, *, pad=0, stride=1, dilation=1, pool=1, low=-128):
    """Makes a convolution of a square image, or, with an image of 1 and a kernel of 1, a dense layer."""
    side, in_c = inputs
    out = (side + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1
    grid = {nodes.PLAIN: out, nodes.MEAN: 1, nodes.MAX_POOL: out // pool}[form]
    return nodes.Layer(
        form,
        (side, side, in_c),
        (kernel, kernel),
        (stride, stride),
        (dilation, dilation),
        (pad, pad),
        (out, out, out_c),
        (grid, grid),
        pool=(pool, pool),
        pool_stride=(pool, pool),
        zero_point=-7,
        low=low,
    )


def update(layer, samples, queries, *, gain, clip=4 * ONE, limit=125, rows=0, rule=NodeRule.FIXED, factors=False):
    """Makes one update. Returns weights and clipped ones before, found and by the oracle."""
    rng = np.random.default_rng(samples)
    count = layer.outputs[2]
    shape = (count, layer.kernel[0] * layer.kernel[1] * layer.inputs[2])
    weights = rng.integers(-limit, limit + 1, shape).astype(np.int8)
    before = weights.astype(np.int64)
    multiplier = rng.integers(0, 2**31, count, dtype=np.int32) if factors else None
    inputs = rng.integers(-128, 128, (samples, *layer.inputs)).astype(np.int8)
    outputs = outputs_of(layer, samples, rng)
    if queries:
        differences = rng.integers(-3000, 3001, (queries, samples)).astype(np.int32)
        seeds = np.arange(queries, dtype=np.uint32)
        evidence = {"differences": differences, "seeds": seeds}
        known = nodes.errors(layer, differences.astype(np.int64), seeds.tolist(), None, samples)
    else:
        given = rng.integers(-300, 301, (samples, layer.positions, count)).astype(np.int16)
        evidence = {"errors": given}
        known = nodes.errors(layer, None, [], given, samples)
    e, shift = known
    gradient = nodes.gradient(layer, e, inputs.astype(np.int64), outputs.astype(np.int64))
    channels = oracle.updated(oracle.sums_of_errors(layer, np.abs(e), outputs), rows)
    g = [int(v) for v in gradient.reshape(shape)[channels].ravel()]
    state = NodeState()
    routes = route_nodes(native(layer), outputs)
    own = (native(layer), state, weights, None, multiplier, 3, limit, inputs, routes)
    options = {"rate": ONE, "clip": clip, "seed": 5, "rule": rule, "gain": gain, "rows": rows}
    clipped = update_from_nodes(*own, **options, **evidence)
    if rule is NodeRule.RMS:
        assert np.isclose(state.mantissa * 2.0**state.exponent, nodes.mean_square(np.array(g), shift), rtol=1e-7)
        return
    mantissa, exponent = np.frexp(gain)
    steps, same = oracle.fixed(g, shift, (int(mantissa * 2**32), int(exponent) - 32), ONE, clip)
    assert steps == same
    scaled = oracle.times(multiplier, channels)(np.array(steps, np.int64).reshape(len(channels), -1))
    assert np.abs(scaled).max() > 0
    moved, saturated = oracle.apply_8(before[channels], scaled, limit, 5, 3, channels, count)
    before[channels] = moved
    np.testing.assert_array_equal(weights, before)
    assert clipped == saturated


SIZES = {
    "channels of equal errors, in two tiles": (layer(nodes.PLAIN, (1, 37), 1, 300), 1, 2),
    "channels of given errors": (layer(nodes.PLAIN, (1, 37), 1, 300), 1, 0),
    "as many errors as channels": (layer(nodes.PLAIN, (1, 64), 1, 20), 1, 8),
    "more samples than are credited at once": (layer(nodes.PLAIN, (1, 43), 1, 9), 70, 2),
    "more samples than errors are held of": (layer(nodes.PLAIN, (1, 9), 1, 3), 300, 1),
    "exact errors of many samples": (layer(nodes.PLAIN, (1, 9), 1, 5), 130, 0),
    "more nodes than errors are held of": (layer(nodes.PLAIN, (20, 3), 3, 3, pad=1), 2, 2),
    "exact errors of many nodes": (layer(nodes.PLAIN, (20, 3), 3, 3, pad=1), 1, 0),
    "means of many outputs": (layer(nodes.MEAN, (12, 11), 1, 4, low=-30), 2, 2),
    "windows of a pooling": (layer(nodes.MAX_POOL, (14, 6), 5, 5, pool=2), 3, 2),
    "dilated windows, half of them cut": (layer(nodes.PLAIN, (9, 5), 3, 4, pad=2, dilation=2), 2, 2),
    "windows with steps between them": (layer(nodes.PLAIN, (11, 9), 4, 4, pad=1, stride=2), 2, 2),
}


@pytest.mark.parametrize(("layer", "samples", "queries"), SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("rows", [0, 2])
def test_is_the_oracles(layer, samples, queries, rows):
    update(layer, samples, queries, gain=0.3, rows=rows)
    update(layer, samples, queries, gain=0.01, rows=rows, factors=True)
    update(layer, samples, queries, gain=0.3, rows=rows, rule=NodeRule.RMS)


@pytest.mark.parametrize("row", [1, 2, 3, 4, 5, 31, 33, 63])
@pytest.mark.parametrize(
    ("clip", "limit"),
    [(126 * ONE, 125), (126 * ONE + 1, 125), (2**24, 127), (2**24, 1), (4 * ONE, 64), (4 * ONE, 63), (1, 125)],
)
def test_rows_of_any_length_limit_and_clip(row, clip, limit):
    """Steps as large as the clip allows, and weights at both limits."""
    update(layer(nodes.PLAIN, (1, row), 1, 16), 1, 2, gain=1000.0, clip=clip, limit=limit)


@pytest.mark.parametrize("mantissa", [0.5, 0.75])
@pytest.mark.parametrize("exponent", slow_but(range(-18, 30, 4), range(-18, 30)))
def test_steps_of_any_size(exponent, mantissa):
    """Covers steps of a unit or two up to steps that are all clipped."""
    update(layer(nodes.PLAIN, (1, 200), 1, 8), 1, 2, gain=mantissa * 2.0**exponent, clip=2**24)
