"""Networks with states: sequences from their first step to the last, on each runtime, and their files."""

from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from helpers.models.streaming_networks import (
    CHANNELS,
    FEATURES,
    initial_states,
    svdf_network,
    with_ports,
    with_variables,
)
from tflm_zo import DataError, Trainer, adapt, algorithms, recalibrate
from tflm_zo.adaptation import recipe
from tflm_zo.converters import ConversionError, Model, export_model, inject, load_model, read_metadata, set_batch
from tflm_zo.converters.constants import STATE_OPERATOR
from tflm_zo.converters.model import Operator
from tflm_zo.converters.model.schema import OPERATOR_NAMES, BuiltinOperator
from tflm_zo.core import OVER_LARGEST, OVER_SUM, join_losses
from tflm_zo.data import Inputs, prepare
from tflm_zo.io.arrays import gather
from tflm_zo.runtime import available, load
from tflm_zo.training.evaluation import evaluate

STEPS = 5
RUNTIMES = [name for name in ("litert", "tflm") if name in available()]


def frames(samples: int, seed: int = 0, steps: int = STEPS) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-128, 128, (samples, steps, FEATURES)).astype(np.int8)


class Ports:
    """The network in TFLite's reference kernels, with the states as inputs and outputs that this class keeps."""

    def __init__(self, content: bytes, states: list[NDArray[Any]]) -> None:
        resolver = litert.OpResolverType.BUILTIN_REF
        self._own = litert.Interpreter(model_content=content, experimental_op_resolver_type=resolver)
        self._own.allocate_tensors()
        self._first = states

    def outputs(self, sequence: NDArray[np.int8]) -> NDArray[np.int8]:
        states, found = self._first, []
        for frame in sequence:
            given = [frame.reshape(1, 1, 1, FEATURES), *states]
            for details, value in zip(self._own.get_input_details(), given, strict=True):
                self._own.set_tensor(details["index"], value)
            self._own.invoke()
            output, *states = (self._own.get_tensor(d["index"]).copy() for d in self._own.get_output_details())
            found.append(output[0])
        return np.stack(found)


def zo_model(outputs: int = 1, initial: int | None = None, **given: Any) -> Model:
    return inject(with_variables(outputs, initial=initial), trainable="all", nodes=(), **given)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("initial", [None, 7])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_sequence_begins_with_the_initial_state(runtime: str, initial: int | None, batch: int) -> None:
    x = frames(6)
    oracle = Ports(with_ports(), initial_states(initial))
    expected = np.stack([oracle.outputs(sequence) for sequence in x])
    own = load(zo_model(initial=initial, batch=batch), runtime)
    for first in (0, 3, 0):
        own.feed([x[first : first + 3].reshape(3, STEPS, 1, 1, FEATURES)], None)
        own.invoke()
        np.testing.assert_array_equal(own.outputs()[0], expected[first : first + 3])
    # A single step is a sequence, too.
    own.feed([x[:3, 0].reshape(3, 1, 1, FEATURES)], None)
    own.invoke()
    np.testing.assert_array_equal(own.outputs()[0], expected[:3, 0])


@pytest.mark.parametrize(("outputs", "over"), [(1, "largest"), (1, "sum"), (4, "sum"), (0, "sum")])
def test_losses_are_those_of_the_steps(outputs: int, over: Any) -> None:
    rng, x = np.random.default_rng(3), frames(6)
    if outputs == 0:
        y: NDArray[Any] = rng.integers(-128, 128, (6, STEPS, 3)).astype(np.int8)
    elif over == "largest":
        y = np.repeat(rng.integers(0, 2, (6, 1)), STEPS, 1)
        y[1, 2:] = y[4, :] = -1
    else:
        y = rng.integers(-1, max(2, outputs), (6, STEPS))
    zo = zo_model(outputs, batch=6, loss="mse" if outputs == 0 else "auto", loss_over=over)
    runtime = load(zo, RUNTIMES[0])
    data = prepare(Inputs(zo), x, y)
    assert data.steps == STEPS
    runtime.feed(list(data.inputs), data.labels)
    runtime.invoke(runtime.command())
    found = runtime.losses().tolist()

    # Step by step, with the losses of steps that the runtime gives, joined here.
    words, each = runtime.command().words.copy(), []
    for step in range(STEPS):
        runtime.feed([data.inputs[0][:, step]], data.labels[:, step])
        runtime.invoke(words)
        each.append(runtime.losses().copy())
        words[0] |= 4
    losses = np.array(each)
    for i in range(6):
        known = [
            int(loss) for loss, label in zip(losses[:, i], np.atleast_2d(y[i].T).T, strict=True) if (label >= 0).all()
        ]
        if outputs == 0 or over == "sum":
            assert found[i] == int(losses[:, i].sum())
        elif not known:
            assert found[i] == 0
        else:
            assert found[i] == (min(known) if y[i].max() == 1 else max(known))


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 2**31 - 1)), min_size=1, max_size=6))
@settings(max_examples=200)
def test_join_losses(steps: list[tuple[int, int]]) -> None:
    joined = dict[int, Any]()
    for over in (OVER_SUM, OVER_LARGEST):
        found = None
        for label, loss in steps:
            found = join_losses(over, np.array([label], np.int32), np.array([loss], np.int32), found)
        assert found is not None
        joined[over] = int(found[0])
    assert joined[OVER_SUM] == min(sum(loss for _, loss in steps), 2**31 - 1)
    of_one = {label for label, _ in steps if label >= 0}
    if len(of_one) == 1:
        known = [loss for label, loss in steps if label >= 0]
        assert joined[OVER_LARGEST] == (min(known) if of_one == {1} else max(known))
    elif not of_one:
        assert joined[OVER_LARGEST] == -1


@pytest.mark.parametrize("outputs", [1, 4])
def test_training_gives_the_same_bits_everywhere(outputs: int, tmp_path: Path) -> None:
    x, y = frames(8), np.arange(8) % max(2, outputs)
    runs = []
    for runtime in RUNTIMES:
        trainer = Trainer(with_variables(outputs), algorithms.weight(batch_size=4, learning_rate=4.0), runtime=runtime)
        trainer.fit(x, y, steps=6, keep="best", log=tmp_path / f"{runtime}.zolog")
        runs.append((trainer.runtime.read_weights(), (tmp_path / f"{runtime}.zolog").read_bytes()))
    for weights, log in runs[1:]:
        assert log == runs[0][1]
        for name, values in weights.items():
            np.testing.assert_array_equal(values, runs[0][0][name])


@pytest.mark.parametrize("bits", [8, 16])
def test_behind_svdf(bits: int) -> None:
    """The last layer learns, with the same bits in each runtime, and SVDF begins each sequence with its state of 0."""
    x, y = frames(64), np.arange(64) % 4
    x[..., 0] = (60 * y - 90)[:, None]
    found = []
    for runtime in RUNTIMES:
        trainer = Trainer(svdf_network(bits=bits), algorithms.weight(batch_size=16), runtime=runtime)
        before = trainer.evaluate(x, y)
        trainer.fit(x, y, steps=150, keep="last")
        found.append((before, trainer.evaluate(x, y), trainer.runtime.read_weights()))
    for before, after, weights in found:
        assert after["loss"] < 0.8 * before["loss"], (before, after)
        assert (before, after) == found[0][:2]
        for name, values in weights.items():
            np.testing.assert_array_equal(values, found[0][2][name])


def test_export_is_the_streaming_file_with_other_weights() -> None:
    source = with_variables(4, initial=9)
    trainer = Trainer(source, algorithms.weight(batch_size=2, learning_rate=8.0))
    trainer.fit(frames(8), np.arange(8) % 4, steps=4, keep="last")
    trained = load_model(trainer.export().to_bytes())
    counts = [sorted(op.builtin for op in graph.operators) for graph in trained.subgraphs]
    assert counts == [sorted(op.builtin for op in graph.operators) for graph in source.subgraphs]
    handles = [
        op.options.sharedName for op in trained.subgraphs[0].operators if op.builtin == BuiltinOperator.VAR_HANDLE
    ]
    assert sorted(handles) == [b"stream_0", b"stream_1"]
    content = trained.to_bytes()
    for model, again in ((source.to_bytes(), False), (content, True)):
        own = litert.Interpreter(model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
        own.allocate_tensors()
        (sequence,) = frames(1, 5)
        zo = inject(load_model(content), trainable="none") if again else inject(source, trainable="none")
        runtime = load(zo, RUNTIMES[0])
        runtime.feed([sequence.reshape(1, STEPS, 1, 1, FEATURES)], None)
        runtime.invoke()
        for frame, expected in zip(sequence, runtime.outputs()[0][0], strict=True):
            own.set_tensor(own.get_input_details()[0]["index"], frame.reshape(1, 1, 1, FEATURES))
            own.invoke()
            np.testing.assert_array_equal(own.get_tensor(own.get_output_details()[0]["index"])[0], expected)


def test_export_of_an_untrained_model_is_a_round_trip() -> None:
    source = with_variables(initial=2)
    once = export_model(inject(source, trainable="all", nodes=()))
    again = export_model(inject(load_model(once.to_bytes()), trainable="all", nodes=()))

    def described(model: Model) -> list[Any]:
        tensors = [[t and (t.name, t.shape, t.type, t.buffer.data) for t in op.inputs] for op in _operators(model)]
        return [
            (op.builtin, own, op.options and vars(op.options))
            for op, own in zip(_operators(model), tensors, strict=True)
        ]

    assert repr(described(again)) == repr(described(once))
    assert [t.name for t in again.subgraphs[0].inputs] == [t.name for t in source.subgraphs[0].inputs]
    assert [OPERATOR_NAMES[op.builtin] for op in once.subgraphs[1].operators] == ["VAR_HANDLE", "ASSIGN_VARIABLE"] * 2


def test_a_network_learns_what_only_a_state_can_know() -> None:
    """The class is that of the frame before the last one."""
    rng = np.random.default_rng(1)
    kinds = 90 * np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, -1, -1, -1], [-1, -1, 1, 1, -1, -1], [1, -1, -1, -1, 1, 1]])
    y = rng.integers(0, 4, 256)
    x = rng.integers(-25, 26, (256, 4, FEATURES)) + kinds[rng.integers(0, 4, (256, 4))]
    x[:, -2] = rng.integers(-25, 26, (256, FEATURES)) + kinds[y]
    x = x.astype(np.int8)
    trainer = Trainer(with_variables(4), algorithms.weight(batch_size=32, queries=4))
    before = trainer.evaluate(x[192:], y[192:])
    trainer.fit(x[:192], y[:192], steps=1200, keep="last")
    after = trainer.evaluate(x[192:], y[192:])
    assert before["accuracy"] < 0.45 < 0.7 < after["accuracy"], (before, after)


def test_the_largest_output_detects() -> None:
    zo = zo_model(batch=4)
    x, y = frames(12), np.arange(12) % 2
    found = evaluate(load(zo, RUNTIMES[0]), prepare(Inputs(zo), x, y))
    oracle = Ports(with_ports(), initial_states(None))
    fires = np.array([(oracle.outputs(sequence) > 0).any() for sequence in x])
    assert (found.counts, found.correct) == (12, int((fires == y).sum()))


def test_bare_adapt_trains_sequences(tmp_path: Path) -> None:
    x, y = frames(24), np.arange(24) % 2
    result = adapt(with_variables(), x, y, steps=4)
    assert result.choice is not None
    assert {t.candidate.rung for t in result.choice.trials} <= {"no training", "weights", "biases"}
    load_model(result.model.to_bytes())
    changing = np.where(np.arange(STEPS) < 2, 0, y[:, None])
    with pytest.raises(DataError, match="Received: sequences with both 0 and 1"):
        adapt(with_variables(), x, changing, steps=4)
    by_steps = adapt(with_variables(), x, changing, inject={"loss_over": "sum"}, steps=4)
    assert by_steps.choice is not None


def test_trials_of_long_sequences_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, batch = 3, 64
    monkeypatch.setattr(recipe, "_MOST_INFERENCES", 4 * 2 * batch * STEPS * parts)
    result = adapt(with_variables(), frames(24), np.arange(24) % 2, steps=9)
    assert result.choice is not None and len(result.history.steps) == 9
    assert max(t.steps for t in result.choice.trials) == 4


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (frames(4), np.array([[0, 1, 0, 0, 0]] * 4), "`y` must have one label a sequence"),
        (frames(4)[..., 1:], np.zeros(4, int), r"`x` must have samples of shape \[1, 1, 6\]"),
        ([np.zeros((3, 6), np.int8), np.zeros((4, 5), np.int8)], np.zeros(2, int), "differ in shape"),
        ([np.zeros((0, 6), np.int8), np.zeros((4, 6), np.int8)], np.zeros(2, int), "an empty sequence"),
        (frames(4), np.zeros((4, 3), int), "`y` must have 1 label"),
    ],
)
def test_data_that_are_no_sequences(x: Any, y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        prepare(Inputs(zo_model()), x, y)


LENGTHS = (5, 2, 4, 1)


@pytest.mark.parametrize("form", ["list", "object array", "dictionary"])
@pytest.mark.parametrize(("over", "outputs"), [("largest", 1), ("sum", 4)])
def test_sequences_of_unequal_length(form: str, over: str, outputs: int) -> None:
    """The padding has no effect: losses and outputs are those of each sequence alone."""
    whole, y = frames(4), np.arange(4) % max(2, outputs)
    clips = [clip[:length] for clip, length in zip(whole, LENGTHS, strict=True)]
    x: Any = clips
    if form == "object array":
        x = np.empty(4, object)
        x[:] = clips
    model = Inputs(zo_model(outputs))
    found = prepare(model, {"x": x, "y": y}) if form == "dictionary" else prepare(model, x, y)
    assert found.steps == 5
    for i, length in enumerate(LENGTHS):
        wanted = np.full(5, -1)
        wanted[0 if over == "largest" else length - 1 : length] = y[i]
        np.testing.assert_array_equal(found.labels[i].ravel(), wanted)
        np.testing.assert_array_equal(found.inputs[0][i, :length].reshape(length, FEATURES), clips[i])
    own = load(zo_model(outputs), RUNTIMES[0])
    together = evaluate(own, found)
    alone = [evaluate(own, prepare(model, clip[None], y[i : i + 1])) for i, clip in enumerate(clips)]
    assert together.correct == sum(each.correct or 0 for each in alone)
    np.testing.assert_allclose(together.loss, np.mean([each.loss for each in alone]), rtol=1e-6)
    adapt(with_variables(outputs), x, y, "weight", steps=2, validation_split=0)


def test_labels_of_each_step_of_unequal_sequences() -> None:
    clips, labels = [frames(1)[0, :3], frames(1)[0]], [[0, 1, 2], [3, 2, 1, 0, 3]]
    found = prepare(Inputs(zo_model(4)), clips, labels)
    np.testing.assert_array_equal(found.labels, [[0, 1, 2, -1, -1], labels[1]])
    with pytest.raises(DataError, match="of one length for a mean squared error"):
        prepare(Inputs(zo_model(4, loss="mse")), clips, np.zeros((2, 5, 4), np.int8))


def test_frames_make_whole_steps() -> None:
    given = gather([np.ones((6, 4)), np.ones((3, 4))], {"x": (3, 4)}, of_steps=True)
    assert given.inputs[0].shape == (2, 2, 3, 4) and given.lengths is not None and given.lengths.tolist() == [2, 1]
    with pytest.raises(DataError, match="whole steps of 3 frames. Received: 4 frames"):
        gather([np.ones((6, 4)), np.ones((4, 4))], {"x": (3, 4)}, of_steps=True)
    with pytest.raises(DataError, match="same lengths for each input"):
        both = [np.ones((2, 4)), np.ones((1, 4))]
        gather({"a": both, "b": both[::-1]}, {"a": (1, 4), "b": (1, 4)}, of_steps=True)


def test_rehearsal_has_as_many_steps() -> None:
    trainer = Trainer(with_variables(), algorithms.weight(batch_size=2))
    with pytest.raises(DataError, match="must have the same number of steps. Received: 5 and 4"):
        trainer.fit(frames(4), np.arange(4) % 2, steps=1, rehearsal=(frames(4, steps=4), np.zeros(4, int)))


def test_layer_wise_runs_refuse_sequences() -> None:
    trainer = Trainer(with_variables(4), algorithms.node(batch_size=2))
    trainer.fit(frames(8)[:, 0], np.arange(8) % 4, steps=1)
    with pytest.raises(DataError, match="into 3 segments for `node`.* Train the plain model with algorithm `weight`"):
        trainer.fit(frames(8), np.arange(8) % 4, steps=1)
    with pytest.raises(ConversionError, match="Use algorithm `weight`, which trains sequences"):
        adapt(with_variables(), frames(8), np.arange(8) % 2, "fqt", steps=1)


def test_a_batch_needs_states_of_its_own() -> None:
    assert set_batch(with_variables(), 1)
    with pytest.raises(
        ConversionError, match="`batch` must be 1 for a model with resource variables. Received: 4. Use"
    ):
        set_batch(with_variables(), 4)


def _operators(model: Model) -> list[Operator]:
    return [op for graph in model.subgraphs for op in graph.operators]


def _without(model: Model, kind: int, subgraph: int = 0) -> Model:
    graph = model.subgraphs[subgraph]
    graph.operators.remove(next(op for op in graph.operators if op.builtin == kind))
    return model


def test_files_that_are_streaming_in_part() -> None:
    with pytest.raises(ConversionError, match="variable `stream_.` has no initial value"):
        inject(_without(with_variables(), BuiltinOperator.ASSIGN_VARIABLE, 1))
    with pytest.raises(ConversionError, match="its variable has no VAR_HANDLE"):
        inject(_without(with_variables(), BuiltinOperator.VAR_HANDLE))
    # A state that is never assigned is a constant.
    zo = inject(_without(with_variables(), BuiltinOperator.ASSIGN_VARIABLE), trainable="none")
    assert [s.nbytes for s in read_metadata(zo).states] == [CHANNELS, 2 * FEATURES]
    twice = with_variables()
    graph = twice.subgraphs[0]
    graph.operators.append(next(op for op in graph.operators if op.builtin == BuiltinOperator.ASSIGN_VARIABLE))
    with pytest.raises(ConversionError, match="is not read once and then assigned once"):
        inject(twice)


def test_damaged_states_are_refused() -> None:
    """Such files were found by fuzzing."""
    bare = with_variables()
    next(op for op in bare.subgraphs[0].operators if op.builtin == BuiltinOperator.VAR_HANDLE).outputs = []
    with pytest.raises(ConversionError, match="its variable has no VAR_HANDLE"):
        inject(bare)
    for damage in ("no read", "no command", "no options", "unnamed"):
        zo = zo_model()
        operators = zo.subgraphs[0].operators
        first = next(op for op in operators if op.code.name == STATE_OPERATOR)
        if damage == "no read":
            operators.remove(first)
        elif damage == "no command":
            del first.inputs[1:]
        else:
            first.custom_options = {"no options": b"", "unnamed": (first.custom_options or b"")[:4]}[damage]
        with pytest.raises(ConversionError, match="segment 0 has other states"):
            read_metadata(zo)


def test_the_loss_of_a_sequence_is_one_that_the_model_has() -> None:
    with pytest.raises(ConversionError, match="`loss_over` must be `sum`"):
        zo_model(4, loss_over="largest")
    with pytest.raises(ConversionError, match="`loss_over` must be one of auto, sum, largest"):
        zo_model(1, loss_over="mean")


def test_recalibration_refuses_streams() -> None:
    x = frames(4)
    with pytest.raises(ConversionError, match="a streaming model cannot be recalibrated"):
        recalibrate(with_variables(), x, source=x)
