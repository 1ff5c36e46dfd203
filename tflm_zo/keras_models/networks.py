"""Reference networks for images, keywords and motion sensors."""

from __future__ import annotations

from typing import Any, Final


def _activated(x: Any, name: str) -> Any:
    """Adds batch norm and ReLU."""
    from keras import layers

    return layers.ReLU(name=f"{name}_relu")(layers.BatchNormalization(name=f"{name}_bn")(x))


def lenet5(input_shape: tuple[int, int, int] = (28, 28, 1), classes: int = 10) -> Any:
    """LeNet-5 with ReLU and max pooling: 61,470 weights and 236 biases for 28 x 28 x 1 and 10 classes.

    Convolutions of 6 (same padding) and 16 (valid) 5 x 5 filters, dense layers of 120, 84 and ``classes``.
    Source: LeCun et al., Gradient-based learning applied to document recognition, 1998, whose 32 x 32 inputs
    are the 28 x 28 of MNIST with padding.
    """
    from keras import Input, Model, layers

    inputs = Input(input_shape, name="image")
    x = layers.Conv2D(6, 5, padding="same", activation="relu", name="conv1")(inputs)
    x = layers.MaxPooling2D(name="pool1")(x)
    x = layers.Conv2D(16, 5, activation="relu", name="conv2")(x)
    x = layers.MaxPooling2D(name="pool2")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(120, activation="relu", name="fc1")(x)
    x = layers.Dense(84, activation="relu", name="fc2")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc3")(x), name="lenet5")


def resnet8(input_shape: tuple[int, int, int] = (32, 32, 3), classes: int = 10) -> Any:
    """MLPerf Tiny's image classifier: 77,360 weights for 32 x 32 x 3 and 10 classes, batch norm folded.

    Three residual stacks of 16, 32 and 64 filters. Source: github.com/mlcommons/tiny (image classification),
    after He et al., Deep residual learning, 2015.
    """
    from keras import Input, Model, layers

    def conv(x: Any, filters: int, name: str, stride: int = 1) -> Any:
        x = layers.Conv2D(filters, 3, strides=stride, padding="same", name=name)(x)
        return layers.BatchNormalization(name=f"{name}_bn")(x)

    inputs = Input(input_shape, name="image")
    x = layers.ReLU(name="conv_relu")(conv(inputs, 16, "conv"))
    for i, filters in enumerate((16, 32, 64), 1):
        stride = 1 if i == 1 else 2
        y = layers.ReLU(name=f"stack{i}_relu1")(conv(x, filters, f"stack{i}_conv1", stride))
        y = conv(y, filters, f"stack{i}_conv2")
        if i > 1:
            x = layers.Conv2D(filters, 1, strides=stride, padding="same", name=f"stack{i}_shortcut")(x)
        x = layers.ReLU(name=f"stack{i}_relu")(layers.Add(name=f"stack{i}_add")([x, y]))
    x = layers.AveragePooling2D((x.shape[1], x.shape[2]), name="average")(x)
    x = layers.Flatten(name="flatten")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="resnet8")


def ds_cnn(
    input_shape: tuple[int, int, int] = (49, 10, 1),
    classes: int = 12,
    *,
    filters: int = 64,
    blocks: int = 4,
    stride: tuple[int, int] = (2, 2),
    embedding: int | None = None,
) -> Any:
    """MLPerf Tiny's keyword spotter: 22,016 weights for 49 x 10 features and 12 classes, batch norm folded.

    A 10 x 4 convolution of 64 filters with stride 2, four depthwise-separable blocks of 64 filters, average
    pooling over the image, and one dense layer. Source: github.com/mlcommons/tiny (keyword spotting), after
    Zhang et al., Hello Edge, 2017. Its dropout, which does nothing in inference, is left out.

    Args:
        input_shape: frames, bands and channels of the features.
        classes: outputs of the softmax.
        filters: filters of every convolution.
        blocks: number of depthwise-separable blocks.
        stride: stride of the first convolution, over frames and bands.
        embedding: filters of the last pointwise convolution, which feeds the dense layer through the pooling;
            None: `filters`.
    """
    from keras import Input, Model, layers

    inputs = Input(input_shape, name="features")
    x = layers.Conv2D(filters, (10, 4), strides=stride, padding="same", name="conv")(inputs)
    x = _activated(x, "conv")
    for i in range(1, blocks + 1):
        x = _activated(layers.DepthwiseConv2D(3, padding="same", name=f"dw{i}")(x), f"dw{i}")
        width = filters if embedding is None or i < blocks else embedding
        x = _activated(layers.Conv2D(width, 1, name=f"pw{i}")(x), f"pw{i}")
    x = layers.AveragePooling2D((x.shape[1], x.shape[2]), name="average")(x)
    x = layers.Flatten(name="flatten")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="ds_cnn")


# Filters and stride of the pointwise convolutions.
_BLOCKS: Final = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
)  # fmt: skip


def mobilenet_v1(input_shape: tuple[int, int, int] = (96, 96, 3), classes: int = 2, alpha: float = 0.25) -> Any:
    """MLPerf Tiny's visual wake words: 208,112 weights for 96 x 96 x 3, 2 classes and a width of 0.25.

    Batch norm is folded into the convolutions.
    Sources: github.com/mlcommons/tiny (visual wake words); Howard et al., MobileNets, 2017.
    """
    from keras import Input, Model, layers

    inputs = Input(input_shape, name="image")
    first = layers.Conv2D(int(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="conv")
    x = _activated(first(inputs), "conv")
    for i, (filters, stride) in enumerate(_BLOCKS, 1):
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False, name=f"dw{i}")(x)
        x = _activated(x, f"dw{i}")
        x = layers.Conv2D(int(filters * alpha), 1, use_bias=False, name=f"pw{i}")(x)
        x = _activated(x, f"pw{i}")
    x = layers.AveragePooling2D((x.shape[1], x.shape[2]), name="average")(x)
    x = layers.Flatten(name="flatten")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="mobilenet_v1")


def activity_cnn(input_shape: tuple[int, int] = (128, 6), classes: int = 6) -> Any:
    """Activities from an accelerometer and a gyroscope: 9,376 weights for 128 readings and 6 classes.

    Four `Conv1D` layers of 16 and 32 filters, with batch norm, the first three with a pooling to half the
    readings, an average over time, and one dense layer. Windows are those of the UCI data set of activities
    by smartphones (2.56 s at 50 Hz).

    Args:
        input_shape: readings of a window and channels of the sensors.
        classes: outputs of the softmax.
    """
    from keras import Input, Model, layers

    inputs = Input(input_shape, name="window")
    x = inputs
    for i, (filters, size) in enumerate(((16, 5), (32, 5), (32, 3), (32, 3)), 1):
        x = layers.Conv1D(filters, size, padding="same", name=f"conv{i}")(x)
        x = _activated(x, f"conv{i}")
        if i < 4:
            x = layers.MaxPooling1D(2, name=f"pool{i}")(x)
    x = layers.GlobalAveragePooling1D(name="average")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="activity_cnn")


def digits_cnn(input_shape: tuple[int, int, int] = (8, 8, 1), classes: int = 10) -> Any:
    """A CNN for scikit-learn's 8 x 8 digits: 3,784 weights and 34 biases for 10 classes.

    Two 3 x 3 convolutions of 8 and 16 filters, the second behind a 2 x 2 max pooling, and one dense layer on
    their 4 x 4 x 16 activations.
    """
    from keras import Input, Model, layers

    inputs = Input(input_shape, name="image")
    x = layers.Conv2D(8, 3, padding="same", activation="relu", name="conv1")(inputs)
    x = layers.MaxPooling2D(name="pool1")(x)
    x = layers.Conv2D(16, 3, padding="same", activation="relu", name="conv2")(x)
    x = layers.Flatten(name="flatten")(x)
    return Model(inputs, layers.Dense(classes, activation="softmax", name="fc")(x), name="digits_cnn")
