"""Errors of an exact tail, as the core leads them back, against float64's behind the same clamps."""

import numpy as np
from numpy.typing import NDArray

from tflm_zo.converters import Model, load_model
from tflm_zo.converters.model import Operator, Tensor
from tflm_zo.converters.passes.layer_geometry import activation_range
from tflm_zo.core import NodeControl, samples_in_order
from tflm_zo.training import Exact, Settings, Trainer, inject_for


def samples(model, count, seed, loss="cross_entropy"):
    """Draws random samples with labels in a loss's form."""
    graph, rng = model.subgraphs[0], np.random.default_rng(seed)
    x = rng.integers(-128, 128, (count, *graph.inputs[0].shape[1:])).astype(np.int8)
    output = graph.outputs[0].shape
    if loss in ("cross_entropy", "floor_log2"):
        places = np.prod(output[1:-1], dtype=int)
        return x, rng.integers(0, output[-1], (count, places) if places > 1 else count).astype(np.int32)
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
            for task, field in control.backward.program.of_tasks.items():
                errors, exponents = control.backward.fields[field]
                self.errors.setdefault(task, errors * 2.0 ** exponents[:, None])

        monkeypatch.setattr(NodeControl, "lead_back", recorded)


def cosine(a, b):
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def check_gradients(source, last, monkeypatch, loss="cross_entropy", count=4, seed=5):
    """Compares errors of every layer and sample, from those of the head, whose unit is 2^-15."""
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


_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_ACTIVATIONS = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
_FUSED = (*_LAYERS, "ADD", "SUB", "MUL", "CONCATENATION", "AVERAGE_POOL_2D", "MAX_POOL_2D")


def int8_activations(model: bytes, x: NDArray[np.int8]) -> list[dict[str, NDArray[np.int8]]]:
    """Computes the activations of each sample by tensor name, of a model of batch 1."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=model,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    found = []
    for sample in x:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample[None])
        interpreter.invoke()
        details = [d for d in interpreter.get_tensor_details() if d["dtype"] is np.int8 and d["name"]]
        found.append({d["name"]: interpreter.get_tensor(d["index"]) for d in details})
    return found


def _real(tensor: Tensor, values: NDArray[np.int8] | None = None) -> NDArray[np.float64]:
    q = tensor.quantization
    integers = tensor.numpy() if values is None else values
    scales, points = np.asarray(q.scales, np.float64), np.asarray(q.zero_points, np.float64)
    if len(scales) > 1:
        shape = [-1 if i == q.axis else 1 for i in range(len(tensor.shape))]
        scales, points = scales.reshape(shape), np.broadcast_to(points, len(scales)).reshape(shape)
    return (integers.astype(np.float64) - points) * scales


def _windows(op: Operator):
    sizes = [1, int(op.option("strideH", 1)), int(op.option("strideW", 1)), 1]
    dilations = [int(op.option(f"dilation{side}Factor", 1)) for side in "HW"] if "CONV" in op.code.name else None
    return sizes, "SAME" if op.option("padding", 0) == 0 else "VALID", dilations


# Derivatives at real inputs x or outputs y.
_SLOPES = {
    "LOGISTIC": lambda op, x, y: y * (1 - y),
    "TANH": lambda op, x, y: 1 - y**2,
    "HARD_SWISH": lambda op, x, y: np.where(x <= -3, 0, np.where(x < 3, (2 * x + 3) / 6, 1)),
    "LEAKY_RELU": lambda op, x, y: np.where(x > 0, 1, op.option("alpha", 0.0)),
    "ABS": lambda op, x, y: np.sign(x),
}


def _spread(kernel, dilations):
    """Dilates the filter with zeros between its elements: TensorFlow has no gradient of the dilation itself."""
    sizes = [(n - 1) * d + 1 for n, d in zip(kernel.shape, dilations, strict=False)]
    result = np.zeros((*sizes, *kernel.shape[2:]))
    result[:: dilations[0], :: dilations[1]] = kernel
    return result


def _first_largest(x, axes: list[int], shape):
    """Finds the first largest value along adjacent axes."""
    import tensorflow as tf

    axis, end = min(axes), max(axes) + 1
    x = tf.reshape(x, [*x.shape[:axis], -1, *x.shape[end:]])
    chosen = tf.one_hot(tf.argmax(x, axis), x.shape[axis], axis=axis, dtype=x.dtype)
    return tf.reshape(tf.reduce_sum(x * chosen, axis), shape)


def _compute(op: Operator, read, levels):
    """Computes the operator in real numbers; `read` gives the real value of an input, `levels` a tensor's integers."""
    import tensorflow as tf

    name, output = op.code.name, op.outputs[0]
    if name == "SPLIT":
        return tf.split(read(1), len(op.outputs), axis=int(op.inputs[0].numpy().flat[0]))
    x = read(0)
    if name in _SLOPES:
        return x * tf.constant(_SLOPES[name](op, *(_real(t, levels(t)) for t in (op.inputs[0], output))))
    if name == "SPLIT_V":
        return tf.split(x, op.inputs[1].numpy().tolist(), axis=int(op.inputs[2].numpy().flat[0]))
    if name == "UNPACK":
        return tf.unstack(x, axis=int(op.option("axis", 0)))
    if name == "PACK":
        return tf.stack([read(i) for i in range(len(op.inputs))], int(op.option("axis", 0)))
    if name == "SLICE":
        return tf.slice(x, op.inputs[1].numpy(), op.inputs[2].numpy())
    if name == "STRIDED_SLICE":
        masks = {f"{mask}_mask": int(op.option(f"{mask}Mask", 0)) for mask in ("begin", "end")} | {
            "shrink_axis_mask": int(op.option("shrinkAxisMask", 0))
        }
        return tf.strided_slice(x, *(op.inputs[i].numpy() for i in (1, 2, 3)), **masks)
    if name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        strides, padding, dilations = _windows(op)
        if name == "CONV_2D":
            kernel = _spread(read(1).numpy().transpose(1, 2, 3, 0), dilations)
            return tf.nn.conv2d(x, kernel, strides, padding)
        _, height, width, channels = op.inputs[1].shape
        kernel = read(1).numpy().reshape(height, width, x.shape[3], channels // x.shape[3])
        return tf.nn.depthwise_conv2d(x, _spread(kernel, dilations), strides, padding)
    if name == "FULLY_CONNECTED":
        weights = read(1)
        return tf.reshape(tf.reshape(x, [-1, weights.shape[1]]) @ tf.transpose(weights), output.shape)
    if name in ("ADD", "SUB", "MUL"):
        return {"ADD": tf.add, "SUB": tf.subtract, "MUL": tf.multiply}[name](x, read(1))
    if name == "PRELU":
        return tf.where(x > 0, x, x * read(1))
    if name == "MAXIMUM":
        # A PReLU: x, and its product with small slopes. Where rounding makes them equal, the sign of x decides.
        y = read(1)
        x, y = (x, y) if np.abs(x).sum() > np.abs(y).sum() else (y, x)
        return tf.where(x > 0, x, y)
    if name in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        strides, padding, _ = _windows(op)
        pool = tf.nn.max_pool2d if name == "MAX_POOL_2D" else tf.nn.avg_pool2d
        return pool(x, [int(op.option("filterHeight", 1)), int(op.option("filterWidth", 1))], strides, padding)
    if name == "MEAN":
        return tf.reshape(tf.reduce_mean(x, axis=[int(a) for a in op.inputs[1].numpy().flat]), output.shape)
    if name == "REDUCE_MAX":
        return _first_largest(x, op.inputs[1].numpy().ravel().tolist(), output.shape)
    if name in ("PAD", "PADV2"):
        return tf.pad(x, op.inputs[1].numpy())
    if name == "CONCATENATION":
        return tf.concat([read(i) for i in range(len(op.inputs))], int(op.option("axis", 0)))
    assert name in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "QUANTIZE", *_ACTIVATIONS), name
    return tf.reshape(x, output.shape)


def layer_gradients(model: Model, x: NDArray[np.int8], errors: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Computes dL/dy of each layer's real outputs y, [samples, outputs], by the name of its filter."""
    import tensorflow as tf

    graph, found = model.subgraphs[0], {}
    for values, error in zip(int8_activations(model.to_bytes(), x), errors, strict=True):
        real = {t: tf.constant(_real(t, values[t.name])) for t in graph.inputs}
        with tf.GradientTape() as tape:
            outputs = {}
            for op in graph.operators:

                def read(i: int, op: Operator = op, real: dict[Tensor, tf.Tensor] = real):
                    tensor = op.inputs[i]
                    return tf.constant(_real(tensor)) if tensor.is_constant else real[tensor]

                if op.code.name in ("SOFTMAX", "LOGISTIC") and op.outputs[0] in graph.outputs:
                    continue
                computed = _compute(op, read, lambda t, values=values: values[t.name])
                parts = computed if isinstance(computed, list) else [computed]
                for y, output in zip(parts, op.outputs, strict=True):
                    if op.code.name in _LAYERS:
                        moved = tf.Variable(tf.zeros_like(y))
                        outputs[op.inputs[1].name] = moved
                        y += moved
                    fused = op.option("fusedActivationFunction", 0) if op.code.name in _FUSED else 0
                    activation = _ACTIVATIONS.get(op.code.name, int(fused))
                    low, high = activation_range(output.quantization, activation)
                    integers = values[output.name].astype(int)
                    clamped = (integers <= low) | (integers >= high)
                    y = tf.where(clamped, tf.stop_gradient(y), y)
                    # y - y is 0 to the last bit: equals stay equals, of which a MAX_POOL_2D takes the first.
                    real[output] = _real(output, values[output.name]) + (y - tf.stop_gradient(y))
            z = tf.reshape(real[output], [1, -1])  # of the last operator but SOFTMAX
            loss = tf.reduce_sum(z * error)
        for name, gradient in zip(outputs, tape.gradient(loss, list(outputs.values())), strict=True):
            found.setdefault(name, []).append(gradient.numpy().reshape(-1))
    return {name: np.array(rows) for name, rows in found.items()}
