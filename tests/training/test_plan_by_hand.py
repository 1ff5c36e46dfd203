"""The plan of a net that is small enough to plan with a pencil.

Desktop and device compute a run's plan with the same code, so comparing them finds no error in it. Here every
number is worked out in a comment.

    image [6, 6, 1] -> conv 3 x 3, VALID, 2 channels -> [4, 4, 2] -> max pool 2 x 2 -> [2, 2, 2]
                    -> flatten [8] -> fc1 [3] -> fc2 [2] -> softmax

Multiply-accumulates of a sample:
    conv  4 * 4 * 2 outputs of 3 * 3 * 1 products   288
    fc1   3 outputs of 8                             24
    fc2   2 outputs of 3                              6
    all                                             318
"""

from functools import cache

import pytest

from helpers.injection import inject_all
from helpers.models import GraphBuilder
from helpers.models.graph_builder import Activation, Padding
from tflm_zo import inject
from tflm_zo.converters import Model, read_metadata
from tflm_zo.firmware import plan_run
from tflm_zo.firmware.boundaries import Boundaries
from tflm_zo.firmware.device_model import device_model
from tflm_zo.firmware.sizes import workspace_bytes
from tflm_zo.training import Exact, Nodes, Settings, Weights
from tflm_zo.training.costs import SampleCosts, first_segment, run_costs
from tflm_zo.training.plan import LoweredTask, plan_tasks

STEPS, SAMPLES = 10, 20

# Minibatches of 4 in a model of batch 1: 4 parts. 2 queries of two sides.
NODES = Settings(tasks=(Nodes(queries=2),), batch_size=4)
EXACT = Settings(tasks=(Nodes(queries=2), Exact()), batch_size=4)


@cache
def network() -> bytes:
    g = GraphBuilder(2)
    x = g.input("image", [1, 6, 6, 1])
    x = g.conv(x, "conv", 2, (3, 3), padding=Padding.VALID)
    x = g.pool(x, "pool")
    x = g.flatten(x, "flatten")
    x = g.dense(x, "fc1", 3)
    x = g.dense(x, "fc2", 2, Activation.NONE)
    return g.build([g.softmax(x, "softmax")])


@cache
def with_nodes() -> Model:
    return inject(network(), trainable="nodes", nodes="auto", headroom=0, replay=False)


def test_segments() -> None:
    """Plans segments by hand: conv's nodes are the pooled outputs; the loss reads the last boundary."""
    model = with_nodes()
    metadata = read_metadata(model)
    entering = [
        [t.name for p, t in zip(s.inputs, g.inputs, strict=True) if p.role == "boundary"]
        for s, g in zip(metadata.segments, model.subgraphs, strict=True)
    ]
    assert entering == [[], ["conv"], ["pool"], ["fc1"], ["fc2"]]
    assert [[n.input_segment, n.output_segment, n.node_segment] for n in metadata.nodes] == [
        [0, 1, 2],
        [2, 3, 3],
        [3, 4, 4],
    ]
    assert [(n.form, n.count) for n in metadata.nodes] == [("max_pool", 8), ("plain", 3), ("plain", 2)]
    assert [(t.size, t.channels, t.inner, t.segment) for t in metadata.trainable] == [
        (18, 2, 9, 0),
        (24, 3, 8, 2),
        (6, 2, 3, 3),
    ]


@pytest.mark.parametrize("settings", [NODES, EXACT], ids=["zo", "exact"])
def test_tasks(settings: Settings) -> None:
    plan = plan_run(with_nodes(), settings, steps=STEPS, samples=SAMPLES)
    assert plan.settings.parts == 4 and plan.first_segment == 0
    head_queries = 0 if settings.has(Exact) else 2

    def task(tensor: int, segments: tuple[int, int, int], queries: int, sizes: tuple[int, ...]) -> object:
        return (0, segments[2], queries, False, 1, 65536, 0), (tensor,), segments[:2], sizes

    # Of a sample: bytes of the input; a route byte a node; nodes; scratch: a channel's row, and the channels.
    assert [shape(t) for t in plan.tasks] == [
        task(0, (0, 1, 2), 2, (6 * 6 * 1, 8, 8, 3 * 3 * 1 + 2)),
        task(1, (2, 3, 3), 2, (8, 3, 3, 8 + 3)),
        task(2, (3, 4, 4), head_queries, (3, 2, 2, 3 + 2)),
    ]
    conv = plan.tasks[0].layer.struct.numbers()  # type: ignore[union-attr]
    assert [conv[f] for f in ("in_h", "in_w", "in_c", "k_h", "k_w", "stride_h", "stride_w")] == [
        *(6, 6, 1),
        *(3, 3, 1, 1),
    ]
    assert [conv[f] for f in ("out_h", "out_w", "out_c", "node_h", "node_w")] == [4, 4, 2, 2, 2]
    assert [conv[f] for f in ("pool_h", "pool_w", "pool_stride_h", "pool_stride_w")] == [2, 2, 2, 2]
    assert [conv[f] for f in ("pad_top", "pad_left", "pool_pad_top", "pool_pad_left")] == [0, 0, 0, 0]


def shape(t: LoweredTask) -> object:
    layer, nodes = t.layer, t.nodes
    assert layer is not None and nodes is not None and t.keeps_inputs
    values = (t.kind, t.start_segment, t.queries, t.in_tail, t.mu, t.rate, t.boundary_bytes)
    sizes = (layer.input_bytes, layer.route_bytes, layer.nodes, layer.scratch_values)
    return values, t.tensors, (nodes.input_segment, nodes.output_segment), sizes


def test_boundaries_are_kept_one_after_the_other() -> None:
    """Compares multiples of 8: of 4 samples each, the layers' inputs, [6, 6, 1] 144, pool [2, 2, 2] 32, fc1 [3] 16; of
    one sample, conv [4, 4, 2] 32 and fc2 [2] 8.
    """
    model = with_nodes()
    plan = plan_run(model, NODES, steps=STEPS, samples=SAMPLES)
    kept = Boundaries(model, read_metadata(model), device_model(model, plan))
    assert kept.at == {0: 0, 1: 144, 2: 176, 3: 208, 4: 224}
    assert kept.bytes == 232


# zo_node_task on a 32-bit core: 28 numbers of the layer and 18 other words: kind, start_segment, queries,
# in_tail, mu, rate, gain (2), boundary_bytes, 7 pointers, mean_square (2).
TASK_STRUCT = 4 * (28 + 18)

# Two headers of 164 + 32 * 3 bytes, and 8 words for each task's entry.
HEADERS = 2 * (164 + 32 * 3) + 3 * 4 * 8


def eight(size: int) -> int:
    return (size + 7) // 8 * 8


def test_workspace() -> None:
    """Computes the workspace of 4 samples each, behind the boundaries: route, and the results of queries, 4 bytes for
    each of 2.
    """
    model = with_nodes()
    metadata = read_metadata(model)
    conv = eight(4 * 8) + eight(4 * 2 * 4)  # 32 + 32
    fc1 = eight(4 * 3) + eight(4 * 2 * 4)  # 16 + 32
    fc2 = eight(4 * 2) + eight(4 * 2 * 4)  # 8 + 32
    structs = eight(3 * TASK_STRUCT)  # 552
    headers = eight(HEADERS)  # 616: more than the 11 words that an update needs
    expected = 232 + structs + conv + fc1 + fc2 + headers
    assert expected == 1552
    plan = plan_run(model, NODES, steps=STEPS, samples=SAMPLES)
    assert workspace_bytes(model, metadata, device_model(model, plan)) == expected

    # Errors of 2 bytes in place of the head's losses, and the label of the sample.
    exact = expected - eight(4 * 2 * 4) + eight(4 * 2 * 2) + eight(4)
    assert exact == 1544
    plan = plan_run(model, EXACT, steps=STEPS, samples=SAMPLES)
    assert workspace_bytes(model, metadata, device_model(model, plan)) == exact


def test_costs_of_nodes() -> None:
    model = with_nodes()
    metadata = read_metadata(model)
    costs = SampleCosts(model, metadata)
    assert costs.forward == 318
    assert [round(318 * costs.suffix(k)) for k in range(5)] == [318, 30, 30, 6, 0]
    forward = 318
    conv_queries = 2 * 2 * (24 + 6)  # fc1 and fc2 follow
    fc1_queries = 2 * 2 * 6
    fc2_queries = 2 * 2 * 0
    updates = 8 * 9 + 3 * 8 + 2 * 3  # nodes times the weights that each one credits
    sample = forward + conv_queries + fc1_queries + fc2_queries + updates
    assert sample == 564
    for settings in (NODES, EXACT):
        run = run_costs(settings, model, metadata)
        assert run.until(1, SAMPLES) == pytest.approx(4 * 564 / 318)
        assert run.until(STEPS, SAMPLES) == pytest.approx(STEPS * 4 * 564 / 318)
        assert run.affordable(100.0, SAMPLES) == 14  # 100 / 7.094 = 14.1


def test_costs_where_a_prefix_does_not_change() -> None:
    """Trains fc2 alone: conv and fc1 are run once for each training sample, then only the head's 6."""
    model = with_nodes()
    metadata = read_metadata(model)
    settings = Settings(tasks=(Nodes(queries=2),), batch_size=4, layers=("fc2",))
    run = run_costs(settings, model, metadata)
    assert first_segment(plan_tasks(settings, metadata, lambda _: 1.0)) == 3
    once = SAMPLES * (318 - 6) / 318
    step = 4 * (6 + 2 * 2 * 0 + 2 * 3) / 318
    assert run.until(STEPS, SAMPLES) == pytest.approx(once + STEPS * step)


def test_blocks_of_weights() -> None:
    """Cut before each layer: fc1's block re-runs 30 of 318, fc2's 6."""
    model = inject_all(network(), cuts="layers", batch=1)
    metadata = read_metadata(model)
    assert [t.segment for t in metadata.trainable] == [0, 1, 2]
    settings = Settings(tasks=(Weights(queries=1, scope="blocks"),), batch_size=4)
    plan = plan_run(model, settings, steps=STEPS, samples=SAMPLES)
    assert plan.block_segments == (0, 1, 2)
    # The input of fc1's segment has 8 bytes, fc2's 3, so 8.
    kept = Boundaries(model, metadata, device_model(model, plan))
    assert (kept.at, kept.bytes) == ({1: 0, 2: 8}, 16)
    assert workspace_bytes(model, metadata, device_model(model, plan)) == 16
    # Update of 8 seeds that restores one: 4 + 2 * 9; perturb one: 4 + 2; two words before them.
    assert metadata.command_words == 2 + 4 + 2 * 9 + 4 + 2
    costs = run_costs(settings, model, metadata)
    # Four invokes pass a minibatch forward, so each begins at the input.
    assert costs.until(5, SAMPLES) == 5 * 4 * 2
    model = inject_all(network(), cuts="layers", batch=4)
    metadata = read_metadata(model)
    costs = run_costs(settings, model, metadata)
    steps = [4 * (318 + macs) / 318 for macs in (318, 30, 6)]  # a whole pass and one more of four samples
    assert costs.until(3, SAMPLES) == pytest.approx(sum(steps))
    assert costs.until(7, SAMPLES) == pytest.approx(2 * sum(steps) + steps[0])
