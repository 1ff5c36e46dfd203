"""Recalibration of a model to the data of all clients, which only send sums of channels.

The server restores the moments of a plain model's layers one by one, as `tflm_zo.recalibrate` does. It requests integer
sums and sums of squares of each channel of the present layer, so the result equals, bit for bit, that of all samples in
one place. A message of type ``query`` has a ConfigRecord ``walk`` with ``version`` and ``calls``, all calls of
`recalibration.PartOfWalk` so far; a reply has the result of the last one in an ArrayRecord ``arrays``.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from ...converters import Model, load_model
from ...data import Samples
from ...logs import fingerprint
from ...recalibration import Moments, Recalibration, recalibrate
from ...recalibration.walk import Call, JointWalk, PartOfWalk, prepared
from ..member import FleetError
from .messages import VERSION, check_version

_CALLS: Final = ("count", "moments", "cells", "correct", "leave")
_WALK: Final = "walk"


def _written(calls: list[Call]) -> bytes:
    """Serializes calls as an .npz file without objects."""
    arrays: dict[str, Any] = {"methods": np.array([_CALLS.index(method) for method, _ in calls], np.uint8)}
    for number, (_, arguments) in enumerate(calls):
        arrays |= {f"{number}.{place}": np.asarray(a) for place, a in enumerate(arguments)}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _read(data: bytes) -> list[Call]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            calls: list[Call] = []
            for number, method in enumerate(found["methods"].tolist()):
                names = [name for place in range(3) if (name := f"{number}.{place}") in found]
                first, *rest = [found[name] for name in names] or [None]
                arguments = () if first is None else (int(first), *rest)
                calls.append((_CALLS[method], arguments))
            return calls
    except (IndexError, KeyError, TypeError, ValueError, OSError) as error:
        raise FleetError(f"the message has no calls of a walk: {error}") from error


def recalibrate_fleet(
    model: Model | str | os.PathLike[str] | bytes, grid: Grid, *, source: Samples | None = None, timeout: float = 600
) -> Recalibration:
    """Restores the mean and deviation of a plain model's channels on the data of all clients of a grid.

    Args:
        model: a plain int8 model, the same at all clients; its path or its bytes.
        grid: grid of the clients, whose ClientApp is that of `recalibration_app`.
        source: samples of the data that the model was made for; None: the statistics in the model.
        timeout: time limit of a client for a layer, seconds.

    Raises:
        ConversionError: see `tflm_zo.recalibrate`.
        FleetError: there is no client, or a client has failed, has another model, or does not answer in time.
    """
    loaded = load_model(model)
    nodes = list(grid.get_node_ids())
    if not nodes:
        raise FleetError("no client is there")

    def ask(calls: list[Call]) -> list[Any]:
        config = ConfigRecord({"version": VERSION, "model": fingerprint(loaded), "calls": _written(calls)})
        messages = [Message(RecordDict({_WALK: config}), node, MessageType.QUERY) for node in nodes]
        replies = list(grid.send_and_receive(messages, timeout=timeout))
        silent = set(nodes) - {reply.metadata.src_node_id for reply in replies}
        if silent:
            raise FleetError(f"no answer of node {', '.join(map(str, sorted(silent)))} within {timeout:g} s")
        return [_result(calls[-1][0], reply) for reply in replies]

    samples = sum(ask([("count", ())]))
    return recalibrate(loaded, lambda corrected: JointWalk(corrected, samples, ask), source=source)


def _result(method: str, reply: Message) -> Any:
    """Returns the result in a client's reply. Raises FleetError if the reply has no valid result."""
    node = reply.metadata.src_node_id
    if reply.has_error():
        raise FleetError(f"node {node} has failed: {reply.error.reason}")
    refused = reply.content.get(_WALK)
    if isinstance(refused, ConfigRecord) and "refused" in refused:
        raise FleetError(f"node {node} refuses: {refused['refused']!s}")
    try:
        arrays = {name: a.numpy() for name, a in reply.content.array_records["arrays"].items()}
        if method == "count":
            return int(arrays["count"])
        if method == "cells":
            return (arrays["sums"], arrays["pixels"]) if arrays else None
        return Moments(int(arrays["positions"]), arrays["sums"], arrays["squares"])
    except (KeyError, TypeError, ValueError) as error:
        raise FleetError(f"node {node} has sent something else than sums: {error}") from error


@dataclass(frozen=True)
class RecalibrationClient:
    """Model and data of a client."""

    #: the plain int8 model, the same file as at the server: the model, its bytes or its path.
    model: Model | bytes | str | os.PathLike[str]
    x: Samples  #: the client's samples, without labels.
    runtime: str = "litert"  #: name of the runtime that runs the model.


def recalibration_app(make: Callable[[Context], RecalibrationClient]) -> ClientApp:
    """Returns a ClientApp that sends sums of channels, see `recalibrate_fleet`. Flower may run each message in a new
    process: a client that has lost its state repeats all calls. `make` creates a node's client; it is called with the
    first message of a recalibration, and after a loss of the state.
    """
    app, walks = ClientApp(), dict[int, tuple[RecalibrationClient, PartOfWalk]]()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        try:
            reply = _answer(message.content, context)
        except FleetError as error:
            reply = RecordDict({_WALK: ConfigRecord({"refused": str(error)})})
        return Message(reply, reply_to=message)

    def _answer(content: RecordDict, context: Context) -> RecordDict:
        config = content.get(_WALK)
        if not isinstance(config, ConfigRecord):
            config = ConfigRecord()
        check_version(config.get("version"))
        data = config.get("calls")
        calls = _read(data if isinstance(data, bytes) else b"")
        if len(calls) == 1 or context.node_id not in walks:
            client = make(context)
            model = load_model(client.model)
            if fingerprint(model) != config.get("model"):
                raise FleetError(f"the fleet's model is another one than this client's, {fingerprint(model).hex()}")
            own = load_model(model.to_bytes())  # whose layers are corrected on the way
            walks[context.node_id] = client, PartOfWalk(own, prepared(own, client.x), client.runtime)
        found = walks[context.node_id][1].go(calls)
        return RecordDict({"arrays": ArrayRecord({n: Array(a) for n, a in _arrays(found).items()})})

    return app


def _arrays(found: Any) -> dict[str, Any]:
    if isinstance(found, Moments):
        return {"positions": np.array(found.positions), "sums": found.sums, "squares": found.squares}
    if isinstance(found, int):
        return {"count": np.array(found)}
    return {} if found is None else {"sums": found[0], "pixels": found[1]}
