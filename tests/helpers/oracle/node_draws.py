"""Random layers with nodes for property tests, and the same layer for the C core."""

import numpy as np
from hypothesis import strategies as st

from tflm_zo.core import NodeForm, NodeLayer

from .nodes import MAX_POOL, MEAN, PLAIN, Layer, errors


@st.composite
def layers(draw):
    """Draws any small convolution, with padding, strides, dilation, depthwise or not, and any form of nodes."""
    small = st.integers(1, 3)
    kernel = draw(st.tuples(small, small))
    stride, dilation = draw(st.tuples(small, small)), draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    pad = tuple(draw(st.integers(0, (k - 1) * d)) for k, d in zip(kernel, dilation, strict=True))
    outputs = draw(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4)))
    depthwise = draw(st.sampled_from([False, False, True]))
    in_c = draw(st.integers(1, 3) if depthwise else st.integers(1, 5))
    if depthwise:
        outputs = (*outputs[:2], in_c * draw(st.integers(1, 3)))
    # Large enough for all outputs except those of padding at the end.
    inputs = tuple(
        max(1, (o - 1) * s + (k - 1) * d + 1 - p - draw(st.integers(0, (k - 1) * d)))
        for o, s, k, d, p in zip(outputs[:2], stride, kernel, dilation, pad, strict=True)
    )
    form = draw(st.sampled_from([PLAIN, MAX_POOL, MEAN]))
    extra = {}
    nodes = outputs[:2]
    if form == MEAN:
        nodes = (1, 1)
    elif form == MAX_POOL:
        window, pool_stride = draw(st.tuples(small, small)), draw(st.tuples(small, small))
        pool_pad = tuple(draw(st.integers(0, w - 1)) for w in window)
        nodes = tuple(
            draw(st.integers(1, (o + p - 1) // s + 1))
            for o, p, s in zip(outputs[:2], pool_pad, pool_stride, strict=True)
        )
        extra = {"pool": window, "pool_stride": pool_stride, "pool_pad": pool_pad}
    low = draw(st.sampled_from([-129, -128, -128, -100, 0]))
    return Layer(
        form,
        (*inputs, in_c),
        kernel,
        stride,
        dilation,
        pad,
        outputs,
        nodes,
        zero_point=draw(st.integers(-128, 127)),
        low=low,
        high=draw(st.sampled_from([128, 128, 127, 60])),
        unmasked=draw(st.sampled_from([False, False, True])),
        depthwise=depthwise,
        **extra,
    )


def native(layer: Layer) -> NodeLayer:
    pairs = {
        "k": layer.kernel,
        "stride": layer.stride,
        "dilation": layer.dilation,
        "out": layer.outputs,
        "node": layer.nodes,
        "pool": layer.pool,
        "pool_stride": layer.pool_stride,
        "in": layer.inputs,
    }
    sizes = {f"{name}_{side}": pair[i] for name, pair in pairs.items() for i, side in enumerate("hw")}
    return NodeLayer(
        in_c=layer.inputs[2],
        out_c=layer.outputs[2],
        form=NodeForm(layer.form),
        pad_top=layer.pad[0],
        pad_left=layer.pad[1],
        pool_pad_top=layer.pool_pad[0],
        pool_pad_left=layer.pool_pad[1],
        input_zero_point=layer.zero_point,
        low=layer.low,
        high=layer.high,
        unmasked=layer.unmasked,
        depthwise=layer.depthwise,
        **sizes,
    )


def stored(layer: Layer, rows: np.ndarray) -> np.ndarray:
    """Stores weights [out_c, ...] in TFLite's layout: flat, of a depthwise layer a channel's apart."""
    flat = rows.reshape(layer.outputs[2], -1)
    return np.ascontiguousarray(flat.T if layer.depthwise else flat).ravel()


def rows_of(layer: Layer, weights: np.ndarray) -> np.ndarray:
    """Returns stored weights as [out_c, weights of a channel]."""
    channels = layer.outputs[2]
    return weights.reshape(-1, channels).T if layer.depthwise else weights.reshape(channels, -1)


def whole_of(layer: Layer, weights: np.ndarray, fraction: np.ndarray | None) -> np.ndarray:
    """Returns stored weights times 256, with their fractions, as [out_c, weights of a channel]."""
    whole = 256 * rows_of(layer, weights).astype(np.int64)
    return whole if fraction is None else whole + rows_of(layer, fraction)


def outputs_of(layer: Layer, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Draws outputs with many clamped ones and many ties."""
    values = rng.integers(-128, 128, (samples, *layer.outputs))
    coarse = rng.integers(0, 2) * 31 + 1
    return np.clip(values // coarse * coarse, -128, 127).astype(np.int8)


def random_evidence(
    layer: Layer, samples: int, queries: int, bits: int, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray, int]:
    """Draws arguments of an update, of errors if there are no queries; and e before clamping, with its shift."""
    if queries:
        differences = rng.integers(-(2**bits), 2**bits + 1, (queries, samples)).astype(np.int32)
        seeds = rng.integers(0, 2**32, queries, dtype=np.uint32)
        evidence = {"differences": differences, "seeds": seeds}
        known = errors(layer, differences.astype(np.int64), [int(s) for s in seeds], None, samples)
    else:
        largest = 2 ** min(bits, 15)
        shape = (samples, layer.positions, layer.outputs[2])
        given = rng.integers(-largest, largest, shape).astype(np.int16)
        evidence, exponents = {"errors": given}, None
        if rng.integers(0, 2):
            given[rng.random(samples) < 0.2] = 0
            exponents = rng.integers(-20, 21, samples).astype(np.int8)
            evidence["exponents"] = exponents
        powers = None if exponents is None else exponents.tolist()
        known = errors(layer, None, [], given, samples, powers)
    return evidence, *known
