"""Small int8 networks with random weights. Each function returns the bytes of a .tflite model, batch 1."""

from collections.abc import Callable
from functools import cache

from ai_edge_litert.schema_py_generated import TensorType

from .graph_builder import Activation, GraphBuilder, Padding

MODELS: dict[str, Callable[..., bytes]] = {}


def network(build: Callable[..., bytes]) -> Callable[..., bytes]:
    """Enters a network into `MODELS`; the same seed is built once."""
    MODELS[build.__name__] = cache(build)
    return MODELS[build.__name__]


@network
def lenet5(seed: int = 1, signature: str | None = "serving_default") -> bytes:
    """Builds LeNet-5 on 28 x 28 x 1: two convolutions with max pooling, three dense layers, softmax over 10."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 28, 28, 1])
    x = g.conv(x, "conv1", 6, (5, 5), padding=Padding.SAME)
    x = g.pool(x, "pool1")
    x = g.conv(x, "conv2", 16, (5, 5), padding=Padding.VALID)
    x = g.pool(x, "pool2")
    x = g.flatten(x, "flatten")
    x = g.dense(x, "fc1", 120)
    x = g.dense(x, "fc2", 84)
    x = g.dense(x, "fc3", 10, Activation.NONE)
    return g.build([g.softmax(x, "softmax")], signature=signature, metadata={"min_runtime_version": b"1.14.0"})


@network
def small_cnn(seed: int = 2) -> bytes:
    """Builds one convolution, pooling and one dense layer on 8 x 8 x 1, logits of 4 classes, no signature."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 8, 8, 1])
    x = g.conv(x, "conv", 4)
    x = g.pool(x, "pool")
    x = g.flatten(x, "flatten", options=False)
    return g.build([g.dense(x, "fc", 4, Activation.NONE)])


@network
def depthwise_separable(seed: int = 3) -> bytes:
    """Builds a depthwise-separable network on 12 x 12 x 2 (a keyword spotter in small), softmax over 5."""
    g = GraphBuilder(seed)
    x = g.input("features", [1, 12, 12, 2])
    x = g.conv(x, "conv", 8, (3, 3), stride=2)
    for i in range(2):
        x = g.depthwise(x, f"block{i}/depthwise", activation=Activation.RELU6)
        x = g.conv(x, f"block{i}/pointwise", 8, (1, 1))
    x = g.pool(x, "average", 6, average=True)
    x = g.flatten(x, "flatten")
    x = g.dense(x, "fc", 5, Activation.NONE, per_channel=False)
    return g.build([g.softmax(x, "softmax")], signature="serving_default")


@network
def depth_multiplier(seed: int = 4) -> bytes:
    """Builds a depthwise convolution with a multiplier of 3, valid padding and stride 2; MEAN over the image."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 9, 9, 2])
    x = g.depthwise(x, "depthwise", stride=2, padding=Padding.VALID, multiplier=3)
    x = g.mean(x, "mean", [1, 2])
    return g.build([g.dense(x, "fc", 3, Activation.NONE)])


@network
def residual(seed: int = 5, channels: int = 3, classes: int = 6) -> bytes:
    """Builds a residual network on 8 x 8: two blocks with ADD, one of them with a projection; softmax."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 8, 8, channels])
    x = g.conv(x, "stem", 8)
    y = g.conv(x, "block0/conv0", 8)
    y = g.conv(y, "block0/conv1", 8, activation=Activation.NONE)
    x = g.add(x, y, "block0/add")
    y = g.conv(x, "block1/conv0", 12, stride=2)
    y = g.conv(y, "block1/conv1", 12, activation=Activation.NONE)
    x = g.conv(x, "block1/projection", 12, (1, 1), stride=2, activation=Activation.NONE)
    x = g.add(x, y, "block1/add")
    x = g.pool(x, "average", 4, average=True)
    x = g.flatten(x, "flatten")
    x = g.dense(x, "fc", classes, Activation.NONE)
    return g.build([g.softmax(x, "softmax")], signature="serving_default")


@network
def dense_per_tensor(seed: int = 6) -> bytes:
    """Builds per-tensor quantized dense layers, the second and third without a bias; logits of 5 classes."""
    g = GraphBuilder(seed)
    x = g.input("features", [1, 20])
    x = g.dense(x, "fc1", 16, per_channel=False)
    x = g.dense(x, "fc2", 12, per_channel=False, bias=False)
    return g.build([g.dense(x, "fc3", 5, Activation.NONE, per_channel=False, bias=False)])


@network
def two_inputs(seed: int = 7) -> bytes:
    """Builds a network of an image and a feature vector, the latter read late in the graph; softmax over 4."""
    g = GraphBuilder(seed)
    image = g.input("image", [1, 8, 8, 1])
    features = g.input("features", [1, 10], 1 / 32, -5)
    x = g.conv(image, "conv", 4, stride=2)
    x = g.flatten(x, "flatten")
    x = g.dense(x, "fc_image", 8, Activation.NONE)
    y = g.dense(features, "fc_features", 8, Activation.NONE)
    y = g.requantize(y, "match", x.scale, x.zero_point)
    x = g.concat([x, y], "concat", 1)
    x = g.dense(x, "fc", 4, Activation.NONE)
    return g.build([g.softmax(x, "softmax")], signature="serving_default")


@network
def autoencoder(seed: int = 8) -> bytes:
    """Builds a dense autoencoder, 24 inputs, 4 in the middle; output shaped like the input."""
    g = GraphBuilder(seed)
    x = g.input("window", [1, 24])
    x = g.dense(x, "encoder1", 12, per_channel=False)
    x = g.dense(x, "encoder2", 4, per_channel=False)
    x = g.dense(x, "decoder1", 12, per_channel=False)
    return g.build([g.dense(x, "decoder2", 24, Activation.NONE, per_channel=False)], signature="encode")


@network
def logistic_head(seed: int = 9) -> bytes:
    """Builds three independent sigmoid outputs."""
    g = GraphBuilder(seed)
    x = g.input("features", [1, 6, 6, 2])
    x = g.conv(x, "conv", 4)
    x = g.dense(x, "fc", 3, Activation.NONE)
    return g.build([g.logistic(x, "probability")])


@network
def dense_after_4d(seed: int = 10) -> bytes:
    """Builds a FULLY_CONNECTED straight after a 4-D tensor; softmax with beta 2 over 4."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 6, 6, 1])
    x = g.conv(x, "conv", 4, stride=2)
    x = g.dense(x, "fc1", 8)
    x = g.dense(x, "fc2", 4, Activation.NONE)
    return g.build([g.softmax(x, "softmax", beta=2.0)])


@network
def float_edges(seed: int = 11) -> bytes:
    """Builds float32 input and output around an int8 network: QUANTIZE first, SOFTMAX and DEQUANTIZE last."""
    g = GraphBuilder(seed)
    x = g.quantize(g.float_input("input", [1, 16]), "input_int8", [1, 16])
    x = g.dense(x, "fc1", 12)
    x = g.dense(x, "fc2", 5, Activation.NONE)
    return g.build([g.dequantize(g.softmax(x, "softmax"), "output")], signature="serving_default")


@network
def uint8_edges(seed: int = 13) -> bytes:
    """Builds uint8 image and scores around an int8 network, as TensorFlow's converter does: QUANTIZE first and last."""
    g = GraphBuilder(seed)
    pixels = g.tensor("image", [1, 8, 8, 1], TensorType.UINT8, scales=[1 / 255], zero_points=[0])
    g.inputs.append(pixels)
    x = g.quantize(pixels, "image_int8", [1, 8, 8, 1], 1 / 255, -128)
    x = g.pool(g.conv(x, "conv", 4), "pool")
    x = g.softmax(g.dense(x, "fc", 5, Activation.NONE), "softmax")
    scores = g.tensor("scores", [1, 5], TensorType.UINT8, scales=[1 / 256], zero_points=[0])
    g.operator("QUANTIZE", [x.index], [scores], "Quantize")
    return g.build([scores], signature="serving_default")


@network
def two_outputs(seed: int = 12) -> bytes:
    """Builds a classifier (softmax over 4) and a detector (one sigmoid) on a common trunk."""
    g = GraphBuilder(seed)
    x = g.input("image", [1, 6, 6, 1])
    x = g.conv(x, "trunk", 4, stride=2)
    x = g.flatten(x, "flatten")
    a = g.softmax(g.dense(x, "class", 4, Activation.NONE), "softmax")
    b = g.logistic(g.dense(x, "detect", 1, Activation.NONE), "sigmoid")
    return g.build([a, b], signature="serving_default")


def shared_filters(share_tensor: bool) -> bytes:
    """Builds two layers whose filters share a buffer and whose biases share a buffer, or even the tensor."""
    g = GraphBuilder(3)
    x = g.input("x", [1, 8])
    y = g.dense(x, "a", 8, Activation.NONE)
    y = g.requantize(y, "same", x.scale, x.zero_point)
    z = g.dense(y, "b", 8, Activation.NONE)
    first, second = g.operators[0], g.operators[2]
    for i in (1, 2):
        a, b = g.tensors[first.inputs[i]], g.tensors[second.inputs[i]]
        b.buffer, b.quantization = a.buffer, a.quantization
    if share_tensor:
        second.inputs[2] = first.inputs[2]
    return g.build([z])
