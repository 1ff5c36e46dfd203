"""Recurrent layers of Keras in operators that have an int8 form, for the time of a conversion.

TensorFlow's converter makes loops of them, which stay float. Here an LSTM becomes TFLite's LSTM operator, and other
layers are unrolled. All steps read the same constants, so each filter is in the file once and trains as one.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ..converters.errors import ConversionError

_CHANGED: Final = ("inner_loop", "get_initial_state", "_maybe_config_dropout_masks")
_State = Any  # a tensor [1, units], or None for zeros, whose products the graph then lacks


def recurrent_layers(keras: Any, layers: Sequence[Any]) -> list[Any]:
    """Returns the recurrent layers among a model's layers. ConversionError: a layer has no form with fixed steps."""
    found = [layer for layer in layers if isinstance(layer, keras.layers.RNN)]
    for layer in found:
        if layer.stateful:
            raise ConversionError(
                f"layer `{layer.name}` must have stateful=False. Received: stateful=True. Build the layer without it; "
                "each sample then begins with the initial state"
            )
    masks = [layer.name for layer in layers if found and isinstance(layer, keras.layers.Masking)]
    if masks:
        raise ConversionError(
            f"layer `{masks[0]}` must not mask steps of recurrent layers. Received: Masking. Train and convert the "
            "model without it, on windows of one length"
        )
    return found


@contextlib.contextmanager
def with_int8_forms(tf: Any, keras: Any, layers: Sequence[Any], names: Sequence[str]) -> Iterator[list[str]]:
    """Changes the loops of recurrent layers until the end of the context. Yields a list that gets a line about each
    layer when the model is called.
    """
    notes: list[str] = []
    unrolled = [layer.unroll for layer in layers]
    try:
        for layer, name in zip(layers, names, strict=True):
            step = _step_of(keras, layer)
            if step is None:
                layer.unroll = True  # any other cell: Keras unrolls it, with a filter for all steps
            fresh: list[Any] = []
            layer.get_initial_state = _kept(layer.get_initial_state, fresh)
            layer.inner_loop = _loop(tf, layer, name, step, fresh, notes)
            layer._maybe_config_dropout_masks = lambda *_: None  # Keras draws them for inference, too
        yield notes
    finally:
        for layer, own in zip(layers, unrolled, strict=True):
            layer.unroll = own
            for method in _CHANGED:
                layer.__dict__.pop(method, None)


def _step_of(keras: Any, layer: Any) -> Any:
    kinds = {keras.layers.GRU: _gru, keras.layers.LSTM: _lstm, keras.layers.SimpleRNN: _simple}
    return kinds.get(type(layer))


def _kept(function: Any, results: list[Any]) -> Any:
    """Returns a function that also keeps its results, which tell zeros from states of the application."""

    def keeping(*arguments: Any, **named: Any) -> Any:
        results.append(function(*arguments, **named))
        return results[-1]

    return keeping


def _loop(tf: Any, layer: Any, name: str, step: Any, fresh: list[Any], notes: list[str]) -> Any:
    own, kind = layer.inner_loop, type(layer).__name__

    def loop(sequences: Any, initial_state: list[Any], mask: Any, training: bool = False) -> Any:
        steps = sequences.shape[1]
        text = f"{kind} `{name}`: unrolled over {steps} steps"
        if step is None or steps is None:  # a model in the model is also traced for any number of steps, in vain
            result = own(sequences, initial_state, mask, training)
        else:
            x = tf.reverse(sequences, [1]) if layer.go_backwards else sequences
            states = [None] * len(initial_state) if fresh else initial_state
            if step is _lstm and fresh and _has_operator(layer):
                result = _lstm_operator(tf, layer.cell, x, initial_state)
                text = f"{kind} `{name}`: one LSTM operator over {steps} steps"
            else:
                outputs = []
                for values in step(tf, layer.cell, x, states):
                    outputs.append(values[0])
                result = outputs[-1], tf.stack(outputs, 1), list(values)
        fresh.clear()
        if steps is not None and text not in notes:
            notes.append(text)
        return result

    return loop


def _inputs(tf: Any, cell: Any, x: Any, bias: Any, part: slice = slice(None), name: str = "input") -> list[Any]:
    """Returns the products of the steps with some columns of the kernel. A product of all steps at once reads filter
    and bias a single time.
    """
    values = tf.tensordot(x, tf.convert_to_tensor(cell.kernel)[:, part], 1, name=name)
    return list(tf.unstack(values if bias is None else values + bias[part], axis=1))


def _simple(tf: Any, cell: Any, x: Any, states: list[_State]) -> Iterator[tuple[Any, ...]]:
    (h,) = states
    for values in _inputs(tf, cell, x, cell.bias if cell.use_bias else None):
        h = cell.activation(values if h is None else values + tf.matmul(h, cell.recurrent_kernel, name="recurrent"))
        yield (h,)


def _gru(tf: Any, cell: Any, x: Any, states: list[_State]) -> Iterator[tuple[Any, ...]]:
    (h,) = states
    gates, new = slice(2 * cell.units), slice(2 * cell.units, None)
    bias = tf.convert_to_tensor(cell.bias) if cell.use_bias else None
    behind = None
    if bias is not None and cell.reset_after:
        # The recurrent bias of the gates is added to that of the inputs, and so has its place there.
        behind, bias = bias[1, new], tf.concat([bias[0, gates] + bias[1, gates], bias[0, new]], 0)
    recurrent = tf.convert_to_tensor(cell.recurrent_kernel)
    of_gates, of_new = recurrent[:, gates], recurrent[:, new]
    inputs = (_inputs(tf, cell, x, bias, gates, "input_gates"), _inputs(tf, cell, x, bias, new, "input_new"))
    for x_gates, x_new in zip(*inputs, strict=True):
        sums = x_gates if h is None else x_gates + tf.matmul(h, of_gates, name="recurrent_gates")
        update, reset = tf.split(cell.recurrent_activation(sums), 2, 1)
        if not cell.reset_after:
            back = None if h is None else tf.matmul(reset * h, of_new, name="recurrent_new")
        elif h is None:
            back = None if behind is None else reset * behind
        else:
            back = tf.matmul(h, of_new, name="recurrent_new")
            back = reset * (back if behind is None else back + behind)
        candidate = cell.activation(x_new if back is None else x_new + back)
        h = candidate - update * candidate if h is None else candidate + update * (h - candidate)
        yield (h,)


def _lstm(tf: Any, cell: Any, x: Any, states: list[_State]) -> Iterator[tuple[Any, ...]]:
    h, c = states
    for values in _inputs(tf, cell, x, cell.bias if cell.use_bias else None):
        sums = values if h is None else values + tf.matmul(h, cell.recurrent_kernel, name="recurrent")
        enter, keep, new, out = tf.split(sums, 4, 1)
        added = cell.recurrent_activation(enter) * cell.activation(new)
        c = added if c is None else cell.recurrent_activation(keep) * c + added
        h = cell.recurrent_activation(out) * cell.activation(c)
        yield h, c


def _has_operator(layer: Any) -> bool:
    """Returns whether the LSTM operator computes this layer, which unroll=True excludes."""
    names = (getattr(layer.cell.activation, "__name__", ""), getattr(layer.cell.recurrent_activation, "__name__", ""))
    return names == ("tanh", "sigmoid") and not layer.unroll and not layer.return_state


def _lstm_operator(tf: Any, cell: Any, x: Any, states: list[Any]) -> tuple[Any, Any, list[Any]]:
    """Calls a function in whose place TensorFlow's converter puts the operator: it knows Keras 2's by this mark."""
    marks = {"api_implements": f"lstm_{uuid.uuid4()}", "time_major": False, "go_backwards": False}

    @tf.function(autograph=False, experimental_attributes=marks)  # type: ignore[untyped-decorator]
    def standard_lstm(x: Any, h: Any, c: Any, kernel: Any, recurrent: Any, bias: Any) -> tuple[Any, ...]:
        outputs = []
        for values in tf.unstack(tf.tensordot(x, kernel, 1) + bias, axis=1):
            enter, keep, new, out = tf.split(values + tf.matmul(h, recurrent), 4, 1)
            c = tf.sigmoid(keep) * c + tf.sigmoid(enter) * tf.tanh(new)
            h = tf.sigmoid(out) * tf.tanh(c)
            outputs.append(h)
        return h, tf.stack(outputs, 1), h, c, tf.constant(0.0)

    bias = cell.bias if cell.use_bias else tf.zeros(4 * cell.units)
    weights = [tf.convert_to_tensor(w) for w in (cell.kernel, cell.recurrent_kernel, bias)]
    last, outputs, *_ = standard_lstm(x, *states, *weights)
    return last, outputs, states
