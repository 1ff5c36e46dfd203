"""Settings for the control unit of a layer-wise run, against numbers from settings and model by hand."""

import struct
from typing import Any

import numpy as np
import pytest

from helpers.injection import inject_all
from helpers.models import MODELS, lenet5
from tflm_zo.converters import Model, load_model, read_metadata
from tflm_zo.training import Exact, Nodes, Settings, Weights
from tflm_zo.training.lowering import LoweredRun, lower
from tflm_zo.training.plan import model_loss
from tflm_zo.training.rules import Bits, Gradient, Normalized, Standardized


def plan(model: Model, *tasks: Any, **given: Any) -> LoweredRun:
    settings = Settings(tasks=tasks, **{"batch_size": 8, **given})
    return lower(model, read_metadata(model), settings, steps=20, samples=100)


def test_tasks_of_nodes_and_weights() -> None:
    """Trains LeNet-5's dense layers by nodes, its convolutions together by weights, which start from the image."""
    model = inject_all(lenet5(), nodes=("fc*",), batch=4)
    found = plan(model, Nodes(queries=3, perturbation=5), Weights(queries=2))
    names = [[read_metadata(model).trainable[i].layer for i in task.tensors] for task in found.tasks]
    assert names == [["fc1"], ["fc2"], ["fc3"], ["conv1", "conv2"]]
    assert [(t.queries, t.mu, t.layer is not None) for t in found.tasks] == [*[(3, 5, True)] * 3, (2, 0, False)]
    assert [read_metadata(model).trainable[i].layer for i in found.tensors] == [n for own in names for n in own]
    assert found.first_segment == 0
    # Without the convolutions a pass begins at fc1's input.
    assert plan(model, Nodes()).first_segment == read_metadata(model).nodes[0].input_segment > 0


def test_weights_behind_a_cut_keep_what_enters_them() -> None:
    """Keeps a sample's pooled image, 4 x 4 x 4 bytes, for fc; nothing for conv, which reads the input."""
    model = inject_all(MODELS["small_cnn"](), cuts=("layers",), headroom=8, batch=4)
    found = plan(model, Weights(scope="layers", queries=2, learning_rate=0.25), learning_rate=0.5)
    assert [t.boundary_bytes for t in found.tasks] == [0, 64]
    # In units of the run's rate, 2^-16.
    assert [t.rate for t in found.tasks] == [32768, 32768]


def test_rules() -> None:
    model = inject_all(lenet5(), nodes=("fc2", "fc3"), update_bits=8, batch=4, headroom=15)
    tail = inject_all(lenet5(), tail=2, update_bits=8, batch=4, headroom=15)
    given: Any = {"stages": (0.3, 0.6)}
    by_bits = plan(tail, Exact(last=2, rule=Bits((5, 4, 3))), **given).rules
    assert (by_bits.rule, by_bits.exact_rule, tuple(by_bits.exact_bits)) == (0, 2, (5, 4, 3))
    assert (by_bits.rows_least, by_bits.rows_most) == (0, 0)  # every row
    some = plan(tail, Exact(last=2, rule=Standardized(), rows=(0.1, 0.5))).rules
    assert (some.exact_rule, some.rows_least, some.rows_most) == (3, round(6553.5), round(32767.5))
    assert plan(model, Nodes(), Weights(scope="layers", rule=Normalized(clip=1.5))).rules.weight_clip == 3 << 15


def test_errors_of_exact_layers_are_weighed_by_their_filters() -> None:
    """Compares the scales of fc3's channels, which the file has, with the factors of the errors behind it."""
    scales = next(
        np.asarray(t.quantization.scales, float)
        for t in load_model(lenet5()).subgraphs[0].tensors
        if t.name == "fc3/filter"
    )
    assert len(set(scales)) > 2
    # No headroom, so that the scales are the original's.
    found = plan(inject_all(lenet5(), tail=2, headroom=0, batch=4), Exact(last=2))
    assert [t.in_tail for t in found.tasks] == [True, False]
    assert found.program is not None
    (step,) = (step for step in found.program.steps if step.layer is not None)
    assert step.tensor == found.tasks[1].tensors[0] and step.mantissas is not None
    factors = step.mantissas * 2.0 ** (step.exponent - 15)
    assert np.abs(factors - scales).max() <= 2.0 ** (step.exponent - 16)


@pytest.mark.parametrize("masked", [False, True])
def test_clamped_nodes_are_masked_where_the_settings_say_so(masked: bool) -> None:
    found = plan(inject_all(MODELS["small_cnn"](), nodes="*"), Nodes(masked=masked))
    assert [t.layer.unmasked for t in found.tasks] == [not masked] * 2


@pytest.mark.parametrize("name", ["small_cnn", "logistic_head", "autoencoder"])
def test_the_loss_is_that_of_its_operator(name: str) -> None:
    """Takes the derivative of the reported loss: kind, zero point and scale of its options."""
    model = inject_all(MODELS[name](), nodes="*")
    (op,) = [op for s in model.subgraphs for op in s.operators if op.code.custom == "TFLM_ZO_LOSS"]
    kind, zero_point, log2e, scale = struct.unpack("<xBxx4xiII", op.custom_options)
    loss = read_metadata(model).loss
    assert loss is not None
    found = model_loss(loss).struct
    assert (found.kind, found.zero_point) == (kind, zero_point)
    if name != "autoencoder":
        assert (found.scale.scale_log2e, found.scale.scale) == (log2e, scale)


def test_logs_have_the_perturbation_of_nodes_for_exact_layers() -> None:
    """Logs have had it from the first, although such layers perturb nothing; 2 if no task has any."""
    model = inject_all(MODELS["small_cnn"](), nodes="*")
    assert [t.mu for t in plan(model, Nodes(perturbation=1), Exact()).tasks] == [1, 1]
    assert [t.mu for t in plan(model, Exact()).tasks] == [2]


def test_layers_of_a_residual_block_share_queries_and_their_gain() -> None:
    """Computes dL/dw = dL/dy s s_a / s_y of each summand, by the queries of the sum: 3 of 8 samples, twice 5 LSB."""
    plain = load_model(MODELS["residual"]()).subgraphs[0]
    scales = {t.name: np.asarray(t.quantization.scales, float) for t in plain.tensors if t.quantization}
    model = inject_all(MODELS["residual"](), nodes=("block1/conv1", "projection"), batch=4)
    found = plan(model, Nodes(queries=3, perturbation=5, rule=Gradient()))
    assert [(t.queries, t.shared) for t in found.tasks] == [(3, False), (0, True)]
    entering = {"block1/conv1": "block1/conv0", "projection": "block0/add"}
    for task in found.tasks:
        t = read_metadata(model).trainable[task.tensors[0]]
        # Nodes are means over the 4 x 4 outputs of the sum; the channel with the largest scale has no factor.
        expected = scales[entering[t.layer]][0] / scales["block1/add"][0] / 16 / (8 * 3 * 2 * 5)
        expected *= max(_filter_scales(model, t.name))
        assert task.gain.mantissa * 2.0**task.gain.exponent == pytest.approx(expected, rel=1e-6), t.layer


def _filter_scales(model: Model, name: str) -> Any:
    """Returns filter scales of the ZO model: headroom changes them."""
    tensors = [t for graph in model.subgraphs for t in graph.all_tensors() if t.name == name and t.is_variable]
    return np.asarray(tensors[0].quantization.scales)
