"""The checks of a ZO model's metadata: their parts fit each other (`faults`) and the graph (`misfits`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from . import constants
from .kernels import STATES, filters_of, kind_of
from .model import Subgraph, Tensor
from .model.schema import DTYPES, OPERATOR_NAMES, TensorType
from .settings import smallest_command
from .states import are_sound, nbytes_of, states_of

if TYPE_CHECKING:
    from .metadata import ZoBackwardStep, ZoMetadata, ZoNodes, ZoPort, ZoTail, ZoTrainable

# The fields of zo_node_layer but the form.
_GEOMETRY: Final = frozenset(
    "in_h in_w in_c out_h out_w out_c k_h k_w stride_h stride_w dilation_h dilation_w pad_top pad_left "
    "node_h node_w pool_h pool_w pool_stride_h pool_stride_w pool_pad_top pool_pad_left "
    "input_zero_point low high depthwise".split()
)

# Numbers that a kind of step has.
_POOL: Final = frozenset("in_h in_w channels out_h out_w k_h k_w stride_h stride_w pad_top pad_left".split())
_BLOCKS: Final = frozenset("blocks pitch offset length".split())
NUMBERS: Final = {
    "mask": frozenset(("low", "high")),
    "max_pool": _POOL,
    "average_pool": _POOL,
    "slice": _BLOCKS,
    "place": _BLOCKS,
    "product": frozenset("repeat length other_repeat other_length zero_point".split()),
    "sum": frozenset(("repeat", "length")),
}

# Kinds that read an activation, and kinds with real factors.
LOOKING: Final = ("mask", "max_pool", "levels", "product")
WITH_FACTORS: Final = ("factors", "levels", "product", "sum")


def faults(m: ZoMetadata) -> Iterator[str]:
    """Yields the contradictions between parts of the metadata."""
    last = len(m.segments) - 1
    if m.command_words < smallest_command(m.max_queries):
        yield f"command_words: {m.command_words} do not hold {m.max_queries} queries"
    for what, names in (
        ("trainable", [t.name for t in m.trainable]),
        ("trainable: layers", [(t.layer, t.bias) for t in m.trainable]),
        ("original.inputs", m.original.inputs),
        ("original.outputs", m.original.outputs),
    ):
        if len(set(names)) < len(names):
            yield f"{what}: a name occurs twice"
    for i, t in enumerate(m.trainable):
        if t.stream != i or t.block >= len(m.blocks) or t.segment > last:
            yield f"trainable.{i}: its stream, block or segment does not exist"
        first = t.bias or t.operator != "DEPTHWISE_CONV_2D"
        channels = t.shape[0 if first else -1]
        if (math.prod(t.shape), channels, t.size // channels if first else 1) != (t.size, t.channels, t.inner):
            yield f"trainable.{i}: shape, size, channels and inner contradict each other"
        if len(t.shape) < 2 and not t.bias:
            yield f"trainable.{i}.shape: a filter has two dimensions at least"
        filters = [j for j, other in enumerate(m.trainable) if other.layer == t.layer and not other.bias]
        if t.bias and (len(t.shape) > 1 or filters not in ([], [i - 1])):
            yield f"trainable.{i}: a bias has one dimension and follows its layer's filter"
        if t.requantized_channels > t.channels:
            yield f"trainable.{i}: more is requantized than there is"
    if m.loss is not None and m.loss.output >= len(m.original.outputs):
        yield f"loss.output: the model has no output {m.loss.output}"
    if m.loss is not None and m.loss.of_classes and m.loss.classes < 2:
        yield "loss.elements: a cross-entropy has two classes at least"
    if m.loss is not None and (m.loss.elements % m.loss.places or m.loss.places > 1 and m.loss.kind != "cross_entropy"):
        yield "loss.places: it does not divide the elements of a cross-entropy"
    if (
        m.loss is not None
        and m.loss.over == "largest"
        and (m.loss.kind, m.loss.elements) != ("binary_cross_entropy", 1)
    ):
        yield "loss.over: a largest output is that of one binary cross-entropy"
    if m.loss is not None and ((m.loss.kind == "sum") != bool(m.loss.parts)):
        yield "loss.parts: a sum has parts, and no other loss"
    for i, part in enumerate(() if m.loss is None else m.loss.parts):
        end = part.first + (part.places - 1) * part.stride + part.channels
        if part.output >= len(m.original.outputs) or m.loss is None or end > m.loss.elements:
            yield f"loss.parts.{i}: the model has no such output"
    yield from _port_faults(m, last)
    yield from _layer_faults(m)


def _port_faults(m: ZoMetadata, last: int) -> Iterator[str]:
    """Yields the segments' inputs and outputs that do not follow from the segment's place."""
    trained = {t.segment for t in m.trainable}
    for k, segment in enumerate(m.segments):
        loss = k == last and m.loss is not None
        command = k in trained or loss or any(s.segment == k for s in m.states)
        expected = {"boundary": k > 0, "label": loss, "command": command}
        others = [p for p in segment.inputs if p.role != "skip"]
        yield from _role_faults(f"segments.{k}.inputs", others, "input", expected)
        skips = [p.index for p in segment.inputs if p.role == "skip"]
        if any(i is None or not 0 < i < k for i in skips) or len(set(skips)) < len(skips):
            yield f"segments.{k}.inputs: a skip is none of an earlier segment's boundary, or occurs twice"
        expected = {"boundary": k < last, "loss": loss, "status": k in trained}
        yield from _role_faults(f"segments.{k}.outputs", segment.outputs, "output", expected)
    for side, names in (("inputs", m.original.inputs), ("outputs", m.original.outputs)):
        ports = [p for s in m.segments for p in getattr(s, side) if p.role in ("input", "output")]
        if {p.index for p in ports} != set(range(len(names))):
            yield f"segments: they do not have the original {side}, each at least once"
        elif any(p.name != names[p.index or 0] for p in ports):
            yield f"segments: a name is not that of the original {side}"


def _role_faults(where: str, ports: Sequence[ZoPort], original: str, expected: dict[str, bool]) -> Iterator[str]:
    roles = [p.role for p in ports]
    for role, wanted in expected.items():
        if roles.count(role) != wanted:
            yield f"{where}: {roles.count(role)} of role {role}, not {int(wanted)}"
    for i, port in enumerate(ports):
        if port.role not in (original, *expected):
            yield f"{where}.{i}: there is no role {port.role} here"
        if (port.role == original) != (port.index is not None):
            yield f"{where}.{i}: an index belongs to an original {original}, and to nothing else"


def _layer_faults(m: ZoMetadata) -> Iterator[str]:
    """Yields the contradictions between the layers with nodes or of a tail and the rest of the metadata."""
    last = len(m.segments) - 1
    for i, n in enumerate(m.nodes):
        yield from _faults_of(m, n, f"nodes.{i}")
        if not n.input_segment < n.output_segment <= n.node_segment <= last:
            yield f"nodes.{i}: its segments are not in order"
    if len({n.trainable for n in m.nodes}) < len(m.nodes):
        yield "nodes: a layer is listed twice"
    if m.tail is not None:
        yield from _tail_faults(m, m.tail)


def _faults_of(m: ZoMetadata, n: ZoNodes, what: str) -> Iterator[str]:
    if n.trainable >= len(m.trainable) or m.loss is None:
        yield f"{what}: there is no trainable {n.trainable}, or no loss"
        return
    t, g, last = m.trainable[n.trainable], n.geometry, len(m.segments) - 1
    if n.input_segment > t.segment or (n.output_segment and n.output_segment <= t.segment):
        yield f"{what}: its segments are not in order"
    if not {"in_c", "out_c", "k_h", "k_w", "node_h", "node_w"} <= g.keys() <= _GEOMETRY:
        yield f"{what}.geometry: a field is missing or unknown"
    elif g["out_c"] * (1 if t.bias else n.row) != t.size:
        of = f"{t.size} biases" if t.bias else f"a filter of {t.size} weights"
        yield f"{what}.geometry: it is not that of {of}"
    elif g["node_h"] * g["node_w"] * g["out_c"] != n.count:
        yield f"{what}.geometry: it is not that of {n.count} nodes"
    if n.head and (n.count, n.node_segment) != (m.loss.elements, last):
        yield f"{what}.head: the loss does not read these nodes"


def _tail_faults(m: ZoMetadata, tail: ZoTail) -> Iterator[str]:
    last, fields = len(m.segments) - 1, tail.fields
    for i, n in enumerate(tail.layers):
        yield from _faults_of(m, n, f"tail.layers.{i}")
        if n.trainable >= len(m.trainable):
            return
        if n.form != "plain" or n.head != (i == len(tail.layers) - 1):
            yield f"tail.layers.{i}: the last layer alone is the head, and all are plain"
        if m.trainable[n.trainable].bias:
            yield f"tail.layers.{i}: errors come back through filters, not through biases"
        if max(n.output_segment, n.node_segment) > last:
            yield f"tail.layers.{i}: its segments do not exist"
    numbers = [n.trainable for n in tail.layers]
    if numbers != sorted(set(numbers)):
        yield "tail.layers: they are not in order"
    of_layers = [fields[i].count if i < len(fields) else None for i in tail.of_layers]
    if of_layers != [n.count for n in tail.layers] or tail.of_layers[-1] != 0:
        yield "tail.of_layers: these fields have other sizes"
    for i, s in enumerate(tail.steps):
        if s.source >= len(fields) or s.target >= len(fields) or s.kind != "mask" and s.target == s.source:
            yield f"tail.steps.{i}: its fields do not exist, or are one"
        if s.looks != (s.segment is not None) or not 0 <= (s.segment or 0) <= last or s.segment == 0:
            yield f"tail.steps.{i}: its segment does not exist"
        if (s.kind == "layer") != (s.layer is not None) or (s.layer or 0) >= len(tail.layers):
            yield f"tail.steps.{i}: its layer does not exist"
        if s.numbers.keys() != NUMBERS.get(s.kind, frozenset()) or (s.kind in WITH_FACTORS) != bool(s.factors):
            yield f"tail.steps.{i}: a number is missing or unknown"
        if not _sizes_fit(tail, s):
            yield f"tail.steps.{i}: its fields have not the sizes of its operator"
    yield from _order_faults(tail)


def _sizes_fit(tail: ZoTail, s: ZoBackwardStep) -> bool:
    """Whether a step takes errors of the sizes that its fields have, as zo_backward_check asks."""
    source, target, n = tail.fields[s.source].count, tail.fields[s.target].count, s.numbers
    if s.layer is not None:
        layer = tail.layers[s.layer]
        g = layer.geometry
        return (source, target) == (layer.count, g.get("in_h", 1) * g.get("in_w", 1) * g["in_c"])
    if s.kind.endswith("_pool"):
        sizes = (n["out_h"] * n["out_w"] * n["channels"], n["in_h"] * n["in_w"] * n["channels"])
        return (source, target) == sizes
    if s.kind in ("slice", "place"):
        whole, part = (source, target) if s.kind == "slice" else (target, source)
        end = n["offset"] + (n["blocks"] - 1) * n["pitch"] + n["length"]
        fits = min(n["offset"], n["blocks"] - 1, n["length"] - 1, n["pitch"] - n["length"]) >= 0
        return fits and n["blocks"] * n["length"] == part and end <= whole
    if s.kind in ("product", "sum"):
        periods = [n["repeat"] * n["length"], n.get("other_repeat", 1) * n.get("other_length", 1)]
        whole = all(number >= 1 for name, number in n.items() if name != "zero_point")
        return whole and n["length"] == target and not any(source % p for p in periods) and len(s.factors) == 1
    if s.kind == "levels":
        return source == target and len(s.factors) == 256
    return source == target and source % max(1, len(s.factors)) == 0


def _order_faults(tail: ZoTail) -> Iterator[str]:
    """Yields the steps that read a field before errors are in it, and the fields that get none."""
    filled = {0}
    for i, s in enumerate(tail.steps):
        if s.source not in filled or s.kind == "add" and s.target not in filled:
            yield f"tail.steps.{i}: no errors are in its fields yet"
        filled.add(s.target)
    for i in set(range(len(tail.fields))) - filled:
        yield f"tail.fields.{i}: no step leads errors to it"


def misfits(m: ZoMetadata, graphs: Sequence[Subgraph]) -> Iterator[str]:
    """Yields the differences of segments, ports, filters and layers with nodes from the metadata."""
    if len(graphs) != len(m.segments):
        yield f"it has {len(graphs)} subgraphs, not {len(m.segments)}"
    for k, (segment, graph) in enumerate(zip(m.segments, graphs, strict=True)):
        for ports, tensors in ((segment.inputs, graph.inputs), (segment.outputs, graph.outputs)):
            if len(ports) != len(tensors):
                yield f"segment {k} has {len(tensors)} inputs or outputs, not {len(ports)}"
            for port, tensor in zip(ports, tensors, strict=True):
                yield from _port_misfits(m, f"segment {k}, {port.role} `{tensor.name}`", port, tensor)
        yield from _filter_misfits([t for t in m.trainable if t.segment == k], graph, k)
        there = [(t.name, nbytes_of(t)) for t in states_of(graph)]
        if not are_sound(graph) or there != [(s.name, m.batch * s.nbytes) for s in m.states if s.segment == k]:
            yield f"segment {k} has other states"
    read = [_read(m, graphs, k) for k in range(len(graphs))]
    for k in range(1, len(graphs)):
        given = graphs[k - 1].outputs[m.segments[k - 1].output_index("boundary") or 0]
        if (read[k].shape, read[k].type) != (given.shape, given.type):
            yield f"segment {k} does not read what segment {k - 1} gives"
        for entered, index in m.segments[k].skips.items():
            skip = graphs[k].inputs[index]
            if (skip.shape, skip.type) != (read[entered].shape, read[entered].type):
                yield f"segment {k} does not read what entered segment {entered}"
    for i, n in enumerate(m.nodes):
        for segment_number, sizes in (
            (n.input_segment, ("in_h", "in_w", "in_c")),
            (n.output_segment, ("out_h", "out_w", "out_c")),
            (n.node_segment, ("node_h", "node_w", "out_c")),
        ):
            if read[segment_number].size != m.batch * math.prod(n.geometry.get(name, 1) for name in sizes):
                yield f"nodes.{i}: what enters segment {segment_number} is not {' x '.join(sizes)}"
    yield from _tail_misfits(m, [tensor.size for tensor in read])


def _tail_misfits(m: ZoMetadata, sizes: Sequence[int]) -> Iterator[str]:
    """Yields differences between the tail and the graph. `sizes` are those of the segments' input activations."""
    if m.tail is None:
        return
    for i, n in enumerate(m.tail.layers):
        read = math.prod(n.geometry.get(name, 1) for name in ("in_h", "in_w", "in_c"))
        if sizes[n.input_segment] != m.batch * read:
            yield f"tail.layers.{i}: what enters segment {n.input_segment} is not its input"
    head = m.tail.layers[-1]
    if sizes[head.node_segment] != m.batch * head.count:
        yield f"tail: what enters segment {head.node_segment} is not what the loss reads"
    for i, step in enumerate(m.tail.steps):
        looked_at = step.numbers.get("other_length", m.tail.fields[step.target].count)
        if step.segment is not None and sizes[step.segment] != m.batch * looked_at:
            yield f"tail.steps.{i}: what enters segment {step.segment} is not what it looks at"


def _read(m: ZoMetadata, graphs: Sequence[Subgraph], k: int) -> Tensor:
    """The boundary that enters a segment; of the first one original input 0, wherever that is read."""
    if k:
        return graphs[k].inputs[m.segments[k].input_index("boundary") or 0]
    return next(
        tensor
        for segment, graph in zip(m.segments, graphs, strict=True)
        for port, tensor in zip(segment.inputs, graph.inputs, strict=True)
        if port.role == "input" and port.index == 0
    )


def _filter_misfits(trainable: Sequence[ZoTrainable], graph: Subgraph, segment: int) -> Iterator[str]:
    filters = {op: own for op in graph.operators if (own := filters_of(op))}
    for t in trainable:
        found = [v for v in graph.all_tensors() if v.name == t.name and v.is_variable]
        type_ = TensorType.INT32 if t.bias else TensorType.INT8
        if [(v.type, v.shape) for v in found] != [(type_, t.shape)]:
            yield f"segment {segment} has not one {t.dtype} variable `{t.name}` {list(t.shape)}"
            continue
        for op, own in filters.items():
            read, kind = op.inputs[2:3] if t.bias else own, OPERATOR_NAMES.get(kind_of(op), "")
            # Kernels of SVDF and LSTM may read their weights once.
            if found[0] in read and (kind != t.operator or op.builtin in STATES):
                kinds = f"a {op.code.name}, not of a {t.operator}"
                what = "bias" if t.bias else "filter"
                yield f"segment {segment}: {what} `{t.name}` is that of {kinds}"
    size = sum(t.nbytes for t in trainable)
    initial = [t for t in graph.tensors if t.name == constants.INITIAL and t.is_constant]
    if size and [(t.type, t.shape) for t in initial] != [(TensorType.INT8, (size,))]:
        yield f"segment {segment} has not the initial weights of its filters and biases, {size} bytes"


def _port_misfits(m: ZoMetadata, what: str, port: ZoPort, tensor: Tensor) -> Iterator[str]:
    kinds: dict[str, tuple[int, tuple[int, ...] | None]] = {
        "command": (TensorType.INT32, (m.command_words,)),
        "loss": (TensorType.INT32, (m.batch,)),
        "status": (TensorType.INT32, (4,)),
    }
    if m.loss is not None and m.loss.kind == "mse":
        kinds["label"] = TensorType.INT8, None
    elif m.loss is not None:
        kinds["label"] = TensorType.INT32, (m.batch,) if m.loss.of_samples else (m.batch, m.loss.labels)
    kind, shape = kinds.get(port.role, (tensor.type, None))
    if tensor.type != kind or tensor.type not in DTYPES or (shape is not None and tensor.shape != shape):
        yield f"{what} is {tensor.type_name} {list(tensor.shape)}"
    elif port.role in ("boundary", "skip") and (not tensor.shape or tensor.shape[0] % m.batch):
        # It may have rows for every position of a sample.
        yield f"{what} of shape {list(tensor.shape)} does not divide into the batch {m.batch}"
    elif port.role in ("input", "label", "loss") and tensor.shape[:1] != (m.batch,):
        yield f"{what} of shape {list(tensor.shape)} does not begin with the batch {m.batch}"
    elif m.loss is not None and m.loss.kind != "sum" and tensor.size != m.batch * m.loss.elements:
        if (port.role == "label" and shape is None) or (port.role == "output" and port.index == m.loss.output):
            yield f"{what} has not {m.loss.elements} values per sample"
