"""The model's description as constant tables: ``zo_model.cc``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..converters.errors import ConversionError
from ..converters.initial_weights import step_multipliers, update_masks
from ..converters.metadata import ZoMetadata
from ..converters.model import Model
from ..core import NODE_HEAD, NODE_TAIL, SeedLogHeader
from ..core.loader import constants
from ..logs import fingerprint
from ..training.lowering import LoweredRun
from ..training.plan import LoweredTask, model_loss
from .backward_tables import backward_tables
from .device_model import Boundaries, DeviceModel, bytes_of_sample
from .source_text import array, comment, fill, hexadecimal, numbers, own

_MAX_INPUTS = 8  # kMaxInputs


def _segments(
    device: DeviceModel, metadata: ZoMetadata, boundaries: Boundaries, arrays: Sequence[str]
) -> tuple[str, str]:
    """Returns the rows of the segments and of their skips."""
    rows, skips = list[str](), list[str]()
    for k, (segment, model) in enumerate(zip(metadata.segments, device.segments, strict=True)):
        owned = device.in_segment[k]
        first = device.number(owned[0]) if owned else 0
        entering = segment.input_index("boundary")
        # The fields that a frozen segment lacks are the last ones.
        graph = model.subgraphs[0]
        inputs, outputs = range(len(graph.inputs)), range(len(graph.outputs))
        found = [entering, *(segment.input_index(role) for role in ("label", "command"))]
        found = [i if i in inputs else None for i in found]
        of_outputs = (segment.output_index(role) for role in ("boundary", "loss", "status"))
        found += [i if i in outputs else None for i in of_outputs]
        ports = ["kNone" if i is None else str(i) for i in found]
        size = 0 if entering is None else bytes_of_sample(model, 0, "inputs", entering, metadata.batch)
        places = boundaries.at.get(k, -1), boundaries.passing.get(k, -1)
        values = [arrays[k], *ports, first, len(owned), size, *places, len(skips), len(segment.skips)]
        rows.append(f"    {{{', '.join(map(str, values))}}},")
        skips += [f"    {{{index}, {entered}}}," for entered, index in segment.skips.items()]
    return "\n".join(rows), "\n".join(skips)


def _inputs(model: Model, metadata: ZoMetadata) -> list[tuple[int, int, int, int]]:
    """Returns the rows of the segments' inputs that read an original one, the first reader of each first."""
    found: dict[int, list[tuple[int, int, int, int]]] = {}
    for k, segment in enumerate(metadata.segments):
        for i, port in enumerate(segment.inputs):
            if port.role != "input" or port.index is None:
                continue
            if model.subgraphs[k].inputs[i].type_name != "INT8":
                raise ConversionError(
                    f"input {port.index} is not int8: firmware feeds int8 inputs only; convert the "
                    "model with inference_input_type=tf.int8"
                )
            row = k, i, port.index, bytes_of_sample(model, k, "inputs", i, metadata.batch)
            found.setdefault(port.index, []).append(row)
    count = len(metadata.original.inputs)
    if count > _MAX_INPUTS:
        raise ConversionError(f"the model has {count} inputs; firmware feeds {_MAX_INPUTS} at most")
    if unread := sorted(set(range(count)) - set(found)):
        raise ConversionError(f"input {unread[0]} is read by no segment: remove it from the model")
    return [found[i][0] for i in range(count)] + [row for i in range(count) for row in found[i][1:]]


def _check_fed(device: DeviceModel, metadata: ZoMetadata, inputs: Sequence[tuple[int, int, int, int]]) -> None:
    """Raises ConversionError if the tables have no source for an input of a segment."""
    for k, (segment, model) in enumerate(zip(metadata.segments, device.segments, strict=True)):
        fed: set[int | None] = {*(row[1] for row in inputs if row[0] == k), *segment.skips.values()}
        fed |= {segment.input_index(role) for role in ("boundary", "label", "command")}
        for i, tensor in enumerate(model.subgraphs[0].inputs):
            if i not in fed:
                raise ConversionError(f"nothing feeds input {i}, `{tensor.name}`, of segment {k}")


def loss_output(model: Model, metadata: ZoMetadata) -> tuple[int, int, int, int]:
    """Returns the output that the loss reads: segment, its numbers there and in the model, bytes per sample."""
    assert metadata.loss is not None
    for k, segment in enumerate(metadata.segments):
        for i, port in enumerate(segment.outputs):
            if port.role != "output" or port.index != metadata.loss.output:
                continue
            # Later segments overwrite the outputs of earlier ones, except their own inputs.
            outputs, last = model.subgraphs[k].outputs, len(metadata.segments) - 1
            if outputs[i].type_name != "INT8":
                raise ConversionError(
                    f"output {port.index} is not int8: firmware reads int8 outputs only; convert the "
                    "model with inference_output_type=tf.int8"
                )
            boundary = segment.output_index("boundary")
            entering = None if boundary is None else outputs[boundary]
            if k != last and (k != last - 1 or outputs[i] is not entering):
                raise ConversionError("the output that the loss belongs to does not last to the loss")
            return k, i, port.index, bytes_of_sample(model, k, "outputs", i, metadata.batch)
    raise ConversionError("the model has no output that its loss belongs to")


def _trainable(
    model: Model, metadata: ZoMetadata, device: DeviceModel, block: str, wanted: Mapping[str, bool]
) -> tuple[str, list[str]]:
    """Returns the arrays of trainable tensors, and rows of `Trainable` with the fields of the run's features."""
    factors: Mapping[str, np.ndarray | None] = {**step_multipliers(model), **device.plan.multipliers}
    masks = update_masks(model)
    arrays, rows = [], []
    for i in device.trained:
        t, values = metadata.trainable[i], list[str | int]()
        factor = factors.get(t.name)
        if factor is not None:
            arrays.append(array(f"const int32_t kMultiplier{block}{i}[{t.channels}]", factor.reshape(-1)))
        if wanted["ZO_WITH_MULTIPLIERS"]:
            pointer = "nullptr" if factor is None else f"kMultiplier{block}{i}"
            values += [pointer, t.channels, t.inner]
        mask = masks.get(t.name)
        if mask is not None:
            arrays.append(array(f"const uint8_t kMask{block}{i}[{mask.size}]", mask.reshape(-1)))
        if wanted["ZO_WITH_MASKS"]:
            values.append("nullptr" if mask is None else f"kMask{block}{i}")
        if wanted["ZO_WITH_BLOCKS"]:
            values.append(t.block)
        kind = constants.ZO_TENSOR_INT16 if t.int16 else constants.ZO_TENSOR_INT8
        if wanted["ZO_WITH_BIASES"] or wanted["ZO_WITH_CHAINS"]:
            values.append(constants.ZO_TENSOR_INT32 if t.bias else kind)
        if values:
            rows.append(f"    {{{', '.join(map(str, values))}}},  // {comment(t.layer)}")
    return "\n".join(arrays), rows


def _settings(settings: Mapping[str, int | tuple[int, ...]], indent: str) -> str:
    lines = []
    for name, value in settings.items():
        text = "{" + ", ".join(map(str, value)) + "}" if isinstance(value, tuple) else f"{value}u"
        lines.append(f"{indent}/* {name} */ {text},")
    return "\n".join(lines)


def run_settings(plan: LoweredRun) -> str:
    """Returns the settings of a run as an initializer of ``zo_control_settings``."""
    return f"{{\n{_settings(plan.settings.numbers(), '    ')}\n}}"


def _task(task: LoweredTask, number: int, block: str, macros: str, device: DeviceModel) -> str:
    program, nodes = device.plan.program, task.nodes
    error_field = None if program is None else program.of_tasks.get(number)
    layer = "" if task.layer is None else ", ".join(map(str, task.layer.struct.numbers().values()))
    ends = (0, 0) if nodes is None else (nodes.input_segment, nodes.output_segment)
    named = {NODE_HEAD: f"{macros}_NODE_HEAD", NODE_TAIL: f"{macros}_NODE_TAIL"}
    following = named.get(task.following_number, str(task.following))
    scales = "nullptr" if task.scales is None else f"kScales{block}{number}"
    kind = f"{macros}_TASK_{task.kind.name}"
    return "\n".join(
        [
            "    {",
            f"        /* kind */ {kind},",
            f"        /* layer */ {{{layer}}},",
            f"        /* start_segment */ {task.start_segment},",
            f"        /* queries */ {task.queries},",
            f"        /* following */ {following},",
            f"        /* mu, rate */ {task.mu}, {task.rate}u,",
            f"        /* gain */ {{{task.gain.mantissa}u, {task.gain.exponent}}},",
            f"        /* boundary_bytes */ {task.boundary_bytes},",
            f"        /* tensors: first, how many */ {device.number(task.tensors[0])}, {len(task.tensors)},",
            f"        /* segments of input, output */ {ends[0]}, {ends[1]},",
            f"        /* scales */ {scales},",
            "        /* backward, field */ "
            + ("nullptr, 0," if error_field is None else f"&kBackward{block}, {error_field},"),
            "    },",
        ]
    )


def _constants_of_tasks(plan: LoweredRun, device: DeviceModel, block: str, names: Mapping[str, str]) -> list[str]:
    """Returns the definitions of the constants of a run's tasks."""
    backward = list[str]()
    if plan.program is not None:
        backward = backward_tables(plan.program, device.number, block, names["zo"])
    return backward + [
        array(f"const int16_t kScales{block}{i}[{t.scales.size}]", t.scales)
        for i, t in enumerate(plan.tasks)
        if t.scales is not None
    ]


def _tasks(plan: LoweredRun, device: DeviceModel, name: str, block: str, macros: str) -> str:
    tasks = "\n".join(_task(t, i, block, macros, device) for i, t in enumerate(plan.tasks))
    return f"const TaskInfo {name}[{len(plan.tasks)}] = {{\n{tasks}\n}};\n"


def _node_settings(plan: LoweredRun, name: str, zo: str) -> str:
    sizes = {"tasks": len(plan.tasks), "first_segment": plan.first_segment}
    rules = _settings(sizes | plan.rules.numbers(), "    ")
    inner = _settings(plan.settings.numbers(), "        ")
    return f"const {zo}_node_settings {name} = {{\n    {{\n{inner}\n    }},\n{rules}\n}};\n"


def _blocks(plan: LoweredRun, devices: Sequence[DeviceModel], kept: Sequence[int], names: Mapping[str, str]) -> str:
    """Returns the definitions of a run of the best of several blocks."""
    parts, rows = [], []
    for i, (block, device) in enumerate(zip(plan.blocks, devices, strict=True)):
        parts += [
            f"// Block {i}: {comment(', '.join(block.layers))}\n",
            *_constants_of_tasks(block.run, device, f"{i}_", names),
        ]
        parts += [
            _tasks(block.run, device, f"kTasks{i}", f"{i}_", names["ZO"]),
            _node_settings(block.probe, f"kProbe{i}", names["zo"]),
            _node_settings(block.run, f"kRun{i}", names["zo"]),
        ]
        rows.append(f"    {{&kModels[{i}], &kProbe{i}, &kRun{i}, kTasks{i}, {kept[i]}}},")
    table = "\n".join(rows)
    count, held_out = len(plan.blocks), len(plan.held_out)
    parts += [
        f"const BlockInfo kBlocks[{count}] = {{\n{table}\n}};\n",
        f"const uint32_t kHeldOut[{held_out}] = {{\n{numbers(plan.held_out)}\n}};\n",
    ]
    return (
        "namespace {\n\n"
        + "\n".join(parts)
        + "\n}  // namespace\n\n"
        + f"const BlockChoiceInfo kBlockChoice = {{kBlocks, kHeldOut, {count}, {held_out}}};\n"
    )


def _run(plan: LoweredRun, devices: Sequence[DeviceModel], kept: Sequence[int], names: Mapping[str, str]) -> str:
    if plan.blocks:
        return _blocks(plan, devices, kept, names)
    if plan.tasks:
        (device,) = devices
        constants = _constants_of_tasks(plan, device, "", names)
        tasks = _tasks(plan, device, "kTasks", "", names["ZO"])
        return (
            "namespace {\n\n" + "\n".join(constants) + "\n}  // namespace\n\n" if constants else ""
        ) + f"{_node_settings(plan, 'kSettings', names['zo'])}\n{tasks}"
    text = f"const {names['zo']}_control_settings kSettings = {names['ZO']}_RUN_SETTINGS;\n"
    if not plan.settings.blocks:
        return text
    segments = plan.block_segments
    return text + f"\nconst uint8_t kBlockSegments[{len(segments)}] = {{\n{numbers(segments)}\n}};\n"


def _log_header(plan: LoweredRun, model: Model, macros: str) -> str:
    """Returns the definition of the log's header, with the fingerprint."""
    data = SeedLogHeader(plan.settings, fingerprint(model), 0).to_bytes()
    return f"const uint8_t kLogHeader[{macros}_LOG_HEADER_BYTES] = {{\n{hexadecimal(data)}\n}};\n\n"


def _tables(
    model: Model,
    metadata: ZoMetadata,
    device: DeviceModel,
    boundaries: Boundaries,
    arrays: Sequence[str],
    block: str,
    wanted: Mapping[str, bool],
) -> tuple[str, dict[str, str | int]]:
    """Returns the tables of a run's model, and its `ModelInfo`."""
    constants, trainable = _trainable(model, metadata, device, block, wanted)
    of_trainable = "// Factors, channels, inner; mask; block; type: those that the run needs.\n"
    of_trainable += f"const Trainable kTrainable{block}[{len(trainable)}] = {{\n"
    of_trainable += "\n".join(trainable) + "\n};\n"
    segments, skips = _segments(device, metadata, boundaries, arrays)
    of_skips = f"// Number of an input, segment that it entered.\nconst Skip kSkips{block}[]"
    of_skips += f" = {{\n{skips}\n}};\n"
    text = fill(
        "zo_model_tables.cc.in",
        block=block,
        segments=segments,
        segment_count=len(metadata.segments),
        skips=of_skips if skips else "",
        constants=constants,
        trainable=of_trainable if trainable else "",
    )
    info: dict[str, str | int] = {
        "block": block,
        "skip_array": f"kSkips{block}" if skips else "nullptr",
        "trainable_array": f"    /* trainable */ kTrainable{block},\n" if trainable else "",
        "trainable_count": len(device.trained),
        "frozen_checksum": f"0x{device.frozen_checksum:08x}",
    }
    return text, info


def model_source(
    model: Model,
    metadata: ZoMetadata,
    plan: LoweredRun,
    devices: Sequence[DeviceModel],
    *,
    name: str,
    arrays: Mapping[str, bytes],
    array_names: Sequence[Sequence[str]],
    least_arenas: Sequence[int],
    command: str,
    wanted: Mapping[str, bool],
    self_test: str,
) -> tuple[str, str]:
    """Returns the text of ``zo_model.cc``, and the tables of the model that ``zo_trainer.cc`` has.

    Args:
        model: the ZO model.
        metadata: the model's metadata.
        plan: plan of the run.
        devices: the run's model as the device has it; of each block's run, where it chooses a block.
        name: name of the model, an identifier.
        arrays: contents of the segments' arrays by name.
        array_names: for each of `devices` where its segments begin in the arrays, in C.
        least_arenas: for each of `devices` bytes of an arena below which no build of TFLM can work.
        command: command line, for the file's first line.
        wanted: the features that the run needs, by the macro's name.
        self_test: the self-test's table.

    Raises:
        ConversionError: firmware cannot feed the model's inputs.
    """
    loss = metadata.loss
    assert loss is not None
    boundaries = [Boundaries(model, metadata, device.plan) for device in devices]
    inputs = _inputs(model, metadata)
    for device in devices:
        _check_fed(device, metadata, inputs)
    last = metadata.segments[-1].input_index("label")
    assert last is not None
    label_bytes = bytes_of_sample(model, len(metadata.segments) - 1, "inputs", last, metadata.batch)
    data = (f"alignas(16) const unsigned char {a}[] = {{\n{hexadecimal(d)}\n}};" for a, d in arrays.items())
    own_fingerprint = (
        f"const uint8_t kFingerprint[{own(name)['ZO']}_LOG_FINGERPRINT_BYTES] = {{\n"
        f"{hexadecimal(fingerprint(model))}\n}};\n\n"
    )
    header = _log_header(plan, model, own(name)["ZO"]) if not plan.tasks else ""
    c_loss = model_loss(loss).struct
    c_scale = f"{{{c_loss.scale.scale_log2e}u, {c_loss.scale.scale}u}}"
    tables, infos = [], []
    for i, (device, of_segments, least) in enumerate(zip(devices, array_names, least_arenas, strict=True)):
        block = str(i) if len(devices) > 1 else ""
        text, info = _tables(model, metadata, device, boundaries[i], of_segments, block, wanted)
        tables.append(text)
        infos.append(
            fill(
                "zo_model_info.cc.in",
                **own(name),
                **info,
                segment_count=len(metadata.segments),
                fingerprint=f"kLogHeader + {own(name)['ZO']}_LOG_FINGERPRINT_AT" if header else "kFingerprint",
                batch=metadata.batch,
                label_bytes=label_bytes,
                loss=f"{c_loss.kind}u, {c_loss.zero_point}, {c_scale}",
                loss_name=loss.kind,
                classes=loss.elements,
                output=", ".join(map(str, loss_output(model, metadata))),
                limit=127 - metadata.headroom,
                least_arena=least,
            ).rstrip("\n")
        )
    text = fill(
        "zo_info_tables.cc.in",
        tables="\n".join(tables),
        inputs="\n".join(f"    {{{', '.join(map(str, row))}}}," for row in inputs),
        input_count=len(inputs),
        fingerprint="" if header else own_fingerprint,
        info=f"const ModelInfo kInfo = {infos[0]};"
        if not plan.blocks
        else f"const ModelInfo kModels[{len(infos)}] = {{\n" + ",\n".join(infos) + "};",
    )
    # Of one model the trainer's compiler is to know the tables.
    of_model, of_trainer = (text, "") if plan.blocks else ("", text)
    source = fill(
        "zo_model.cc.in",
        **own(name),
        command=command,
        tables=of_model,
        header=header,
        self_test=self_test,
        run=_run(plan, devices, [b.bytes for b in boundaries], own(name)),
        data="\n".join(data),
    )
    return source, of_trainer
