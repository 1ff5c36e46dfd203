"""Errors on their way back are TensorFlow's gradients of the float operators, within their rounding."""

import numpy as np
import pytest

from helpers import backward
from helpers.backward import Pool
from tflm_zo.core import NodeLayer

tf = pytest.importorskip("tensorflow", reason="NO TENSORFLOW: errors were not compared with its gradients")


def gradient(function, inputs, errors):
    """Computes d sum(errors * function(inputs)) / d inputs, of one sample, in float64."""
    at = tf.constant(inputs[None].astype(np.float64))
    with tf.GradientTape() as tape:
        tape.watch(at)
        loss = tf.reduce_sum(function(at) * errors[None].astype(np.float64))
    return tape.gradient(loss, at)[0].numpy()


def same_padding(size, window, stride, dilation):
    """Computes outputs and padding before, as in TensorFlow."""
    outputs = -(-size // stride)
    needed = (outputs - 1) * stride + (window - 1) * dilation + 1 - size
    return outputs, max(needed, 0) // 2


def sides(shape, window, stride, dilation, padding):
    if padding == "SAME":
        return [same_padding(shape[i], window[i], stride[i], dilation[i]) for i in range(2)]
    return [((shape[i] - (window[i] - 1) * dilation[i] - 1) // stride[i] + 1, 0) for i in range(2)]


def spread(kernel, dilation):
    """Dilates the filter with zeros between its elements: TensorFlow has no gradient of the dilation itself."""
    height, width = ((n - 1) * d + 1 for n, d in zip(kernel.shape, dilation, strict=False))
    result = np.zeros((height, width, *kernel.shape[2:]))
    result[:: dilation[0], :: dilation[1]] = kernel
    return result


def real(errors):
    return errors[0] * 2.0 ** errors[1]


def draw(shape, rng):
    return rng.integers(-32767, 32768, shape).astype(np.int16)


GEOMETRIES = [
    # inputs, window, stride, dilation, padding
    ((8, 8, 16), (3, 3), (1, 1), (1, 1), "SAME"),
    ((9, 7, 5), (3, 3), (2, 2), (1, 1), "SAME"),
    ((8, 8, 6), (3, 2), (2, 2), (1, 1), "SAME"),
    ((8, 8, 6), (1, 1), (2, 2), (1, 1), "SAME"),
    ((11, 10, 4), (3, 3), (1, 1), (2, 2), "VALID"),
    ((25, 5, 1), (10, 4), (2, 2), (1, 1), "SAME"),
]


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(("shape", "window", "stride", "dilation", "padding"), GEOMETRIES)
def test_convolutions(shape, window, stride, dilation, padding, depthwise):
    rng = np.random.default_rng(5)
    (out_h, top), (out_w, left) = sides(shape, window, stride, dilation, padding)
    out_c = 2 * shape[2] if depthwise else 12
    layer = NodeLayer(
        in_h=shape[0], in_w=shape[1], in_c=shape[2], k_h=window[0], k_w=window[1], stride_h=stride[0],
        stride_w=stride[1], dilation_h=dilation[0], dilation_w=dilation[1], pad_top=top, pad_left=left,
        out_h=out_h, out_w=out_w, out_c=out_c, depthwise=depthwise,
    )  # fmt: skip
    rows = (1, *window, out_c) if depthwise else (out_c, *window, shape[2])
    weights = rng.integers(-127, 128, rows).astype(np.int8)
    scales = rng.integers(2000, 32768, out_c).astype(np.int16)
    errors = draw((out_h, out_w, out_c), rng)
    found = backward.conv(layer, weights, scales, (errors, 0))

    if depthwise:
        kernel = (weights[0] * (scales / 2**15)).reshape(*window, shape[2], 2)
    else:
        kernel = np.transpose(weights * (scales / 2**15)[:, None, None, None], (1, 2, 3, 0))

    def forward(x):
        convolution = tf.nn.depthwise_conv2d if depthwise else tf.nn.conv2d
        return convolution(x, spread(kernel, dilation), strides=[1, *stride, 1], padding=padding)

    exact = gradient(forward, np.zeros(shape), errors)
    # f is half a unit off at most, times the weights that read an input: those of the whole filter.
    unit = np.abs(weights.astype(float)).sum(axis=(0, 1, 2)).max() / 2
    assert np.abs(real(found) - exact).max() <= unit + 2.0 ** found[1] / 2
    cosine = (real(found) * exact).sum() / np.linalg.norm(real(found)) / np.linalg.norm(exact)
    assert cosine > 0.99999


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("window", "stride"), [((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 2), (1, 1))])
def test_pooling(window, stride, padding):
    rng = np.random.default_rng(6)
    shape = (9, 8, 3)
    (out_h, top), (out_w, left) = sides(shape, window, stride, (1, 1), padding)
    pool = Pool(shape, (out_h, out_w), window, stride, (top, left))
    errors = draw((out_h, out_w, 3), rng)
    for values in (216, 7, 1):  # all different; ties in nearly every window; nothing but ties
        inputs = (rng.permutation(216) % values - values // 2).reshape(shape).astype(np.int8)
        largest = backward.max_pool(pool, inputs, (errors, 0))
        exact = gradient(lambda x: tf.nn.max_pool2d(x, window, stride, padding), inputs, errors)
        assert np.abs(real(largest) - exact).max() <= 2.0 ** largest[1] / 2

    average = backward.average_pool(pool, (errors, 0))
    exact = gradient(lambda x: tf.nn.avg_pool2d(x, window, stride, padding), inputs, errors)
    # Half a unit, and parts of 13 bits or more.
    assert np.abs(real(average) - exact).max() <= 2.0 ** average[1] / 2 + 32767 / 2**13
