"""The deployment of a run to a device, which activates it and can revert."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, ZoMetadata, export_model, load_model, read_metadata
from ..core import fnv1a
from ..core.loader import constants
from ..logs import MAGIC, Log, LogError, fingerprint, is_snapshot_log, replay_log
from ..logs.layout import filled_up, padded, unpadded
from .collect import device_log
from .link import Link
from .protocol import Hello, LinkError, Place, PlaceKind, RefusedError

# Bytes of one comparison with the data of an earlier attempt.
_PIECE: Final = 1024
_FLATBUFFER: Final = b"TFL3"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Load:
    """The data to send to a device."""

    kind: PlaceKind  #: WEIGHTS, from which a run starts, or LOG, from whose end a run resumes.
    data: bytes  #: the bytes.

    def stored(self, unit: int) -> Load:
        """Returns the data, padded to the programming unit of the store."""
        return Load(self.kind, padded(self.data, unit)) if self.kind == PlaceKind.LOG else self

    @property
    def place(self) -> Place:
        """Returns the state of the place after the transfer."""
        return Place(self.kind, len(self.data), fnv1a(self.data))


@dataclass(frozen=True)
class Deployment:
    """The result of `deploy`."""

    place: int  #: number of the active place.
    sent: int  #: bytes that were sent; an earlier attempt may have sent the others.
    changed: bool  #: True if another place was active before.


# --- data to send -----------------------------------------------------------------------------------


def load_of(path: Path, link: Link, hello: Hello, model: Path | None) -> Load:
    """Prepares a file for a device.

    Args:
        path: a log; a plain model that was trained; or weights as the device exports them.
        link: the device.
        hello: the device's answer to `Link.hello`.
        model: the ZO model of the device, or None. A seed log is replayed with it, and weights are sent;
            without it, the log is sent and the device replays it.

    Raises:
        LinkError: the file has other weights than the device trains.
        LogError: the log is damaged, has no step, or is of another model.
        OSError: a file cannot be read.
        ValueError: the file cannot be sent, needs `model`, or belongs to another model.
    """
    data = path.read_bytes()
    is_log = data[: len(MAGIC)] == MAGIC
    if is_log and model is None and not is_snapshot_log(path):
        log = Log.read(path)
        if log.fingerprint != hello.fingerprint:
            raise LogError(
                f"{path} is the log of another model than the device's, or of a run that began with other weights"
            )
        return Load(PlaceKind.LOG, unpadded(data)[: log.whole_bytes])
    if not is_log and data[4:8] != _FLATBUFFER:
        if len(data) != hello.weight_bytes:
            raise ValueError(
                f"{path} is no log, no model, and no export of weights, of which the device has "
                f"{hello.weight_bytes:,} bytes"
            )
        return Load(PlaceKind.WEIGHTS, data)
    if model is None:
        raise ValueError(f"{path} has weights among other things: --model names the device's ZO model")
    zo = load_model(model)
    check_model(hello, fingerprint(model.read_bytes()), str(model))
    weights, fractions = replay_log(zo, path) if is_log else _of_model(zo, path, data)
    return Load(PlaceKind.WEIGHTS, _exported(read_metadata(zo), weights, fractions, link, hello))


def check_model(hello: Hello, mark: bytes, name: str) -> None:
    """Raises LinkError if a fingerprint differs from that of the device's model."""
    if mark != hello.fingerprint:
        raise LinkError(f"the device has another model than {name}: take the ZO model that firmware took")


def _of_model(zo: Model, path: Path, data: bytes) -> tuple[Arrays, Arrays]:
    """Returns the weights of a plain model, an export of the ZO model."""
    metadata, plain = read_metadata(zo), load_model(data)
    constant = {t.name: t for graph in plain.subgraphs for t in graph.all_tensors() if t.is_constant}
    weights: dict[str, NDArray[Any]] = {}
    for t in metadata.trainable:
        found = constant.get(t.name)
        values = None if found is None else found.numpy()
        if values is None or values.size != np.prod(t.shape) or values.dtype != t.dtype:
            raise ValueError(f"{path} has no weights `{t.name}` as the device's model has them")
        weights[t.name] = values.reshape(t.shape)
    batch = plain.subgraphs[0].inputs[0].shape[0]
    if export_model(zo, weights, batch=batch).to_bytes() != data:
        raise ValueError(
            f"{path} is no model that was trained from the device's ZO model, with the same scales; send the "
            "log of its run, or train it with train"
        )
    return weights, {}


def _exported(metadata: ZoMetadata, weights: Arrays, fractions: Arrays, link: Link, hello: Hello) -> bytes:
    """Returns the bytes that the device imports: its trained tensors, then their fractions."""
    numbers = list(range(len(metadata.trainable)))
    if metadata.bytes_of(numbers) != hello.weight_bytes:
        log = device_log(link)
        numbers = [] if log is None else sorted({i for task in log.tasks for i in task.tensors})
        if metadata.bytes_of(numbers) != hello.weight_bytes:
            raise LinkError(
                f"the device trains {hello.weight_bytes:,} bytes of the model's weights, which are not known before "
                "its first step; send weights that a device has exported (ExportWeights)"
            )
    tensors = [metadata.trainable[i] for i in numbers]
    parts = [weights[t.name].tobytes() for t in tensors]
    if metadata.update_bits == 16:
        zeros = (np.zeros(t.shape, np.int8) for t in tensors)
        parts += [fractions.get(t.name, zero).tobytes() for t, zero in zip(tensors, zeros, strict=True) if not t.bias]
    return b"".join(parts)


# --- sending ----------------------------------------------------------------------------------------


def deploy(link: Link, hello: Hello, load: Load, on_bytes: Callable[[int], None] = lambda count: None) -> Deployment:
    """Sends a run to a device and activates it. It resumes an interrupted attempt.

    Args:
        link: the device.
        hello: the device's answer to `Link.hello`.
        load: the data to send.
        on_bytes: called with the number of bytes that the device has.

    Raises:
        LinkError: the device does not answer, has no place or too little room, or refuses. Its active run
            does not change.
    """
    if not hello.active:
        raise LinkError("the device has no places that runs can be sent to: its program has no zo_places")
    load = load.stored(hello.unit)
    place, what = 3 - hello.active, load.place
    if hello.places[hello.active - 1] == what:
        return Deployment(hello.active, 0, False)
    if load.kind == PlaceKind.WEIGHTS and len(load.data) != hello.weight_bytes:
        raise LinkError(f"the device trains weights of {hello.weight_bytes:,} bytes, got {len(load.data):,}")
    begin = hello.log_at if load.kind == PlaceKind.LOG else 0
    if begin + len(load.data) > hello.place_bytes:
        raise LinkError(f"the device has room for {hello.place_bytes - begin:,} bytes, got {len(load.data):,}")
    sent = 0
    try:
        for at in range(0, len(load.data), _PIECE):
            piece = load.data[at : at + _PIECE]
            if not link.has(place, begin + at, piece):
                whole = piece.ljust(filled_up(len(piece), hello.unit), b"\xff")
                link.write(place, begin + at, whole, hello.unit)
                sent += len(piece)
            on_bytes(at + len(piece))
        link.activate(place, what)
    except RefusedError as error:
        raise _explained(error, load) from error
    return _checked(link, place, Deployment(place, sent, True))


def revert(link: Link, hello: Hello) -> Deployment:
    """Reactivates the run, log included, that the device had before the last deployment. Raises LinkError if the device
    does not answer, or has no earlier run.
    """
    if not hello.active:
        raise LinkError("the device has no places, so it cannot revert: its program has no zo_places")
    place = 3 - hello.active
    if hello.places[place - 1].kind == PlaceKind.VOID:
        raise LinkError(
            "the device has no previous run: it never received a run, or the last transfer was not completed"
        )
    try:
        link.activate(place, Place(PlaceKind.VOID, 0, 0))
    except RefusedError as error:
        if error.status == constants.ZO_ERROR_STORE:
            raise LinkError("the previous run of the device is damaged; the present one continues") from error
        raise
    return _checked(link, place, Deployment(place, 0, True))


def _checked(link: Link, place: int, done: Deployment) -> Deployment:
    active = link.hello().active
    if active != place:
        raise LinkError(f"the device says that place {active} is active, not {place}, which it was asked for")
    return done


def _explained(error: RefusedError, load: Load) -> LinkError:
    """Explains a refusal to the user."""
    if load.kind == PlaceKind.LOG and error.status == constants.ZO_ERROR_LOG:
        return LinkError(
            "the log is of other settings, steps or samples than the run of the device: --model sends the "
            "weights that it leads to instead"
        )
    if load.kind == PlaceKind.WEIGHTS and error.status == constants.ZO_ERROR_ARGUMENT:
        return LinkError("the device does not take the weights: one is beyond the range that its model trains")
    if error.status == constants.ZO_ERROR_STORE:
        return LinkError("the device could not keep what was sent: its store fails")
    return error
