"""The average of the clients' weights, and the compression of weight differences."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..converters import Model, WeightArray, initial_weights, read_metadata
from ..io.files import write_output
from ..logs import fingerprint
from ..logs.replay import checksum_of
from .member import FleetError

Arrays = Mapping[str, NDArray[Any]]

_TYPES: Final = (np.dtype("<i1"), np.dtype("<i2"), np.dtype("<i4"))
_LEVEL: Final = 9


def packed(now: Arrays, before: Arrays | None = None) -> bytes:
    """Compresses int8 weights and int32 biases by tensor name, less those of `before`, if given: for each tensor one
    byte for the size of its differences (0: 1 byte, 1: 2, 2: 4), then the differences, little-endian, all compressed by
    zlib.
    """
    parts = []
    for name, array in now.items():
        change = array.astype(np.int64) - (0 if before is None else before[name])
        fits = [change.min(initial=0) >= np.iinfo(t).min and change.max(initial=0) <= np.iinfo(t).max
                for t in _TYPES]  # fmt: skip
        kind = fits.index(True)
        parts += [bytes([kind]), change.astype(_TYPES[kind]).tobytes()]
    return zlib.compress(b"".join(parts), _LEVEL)


def unpacked(data: bytes, before: Arrays, *, whole: bool = False) -> dict[str, NDArray[Any]]:
    """Returns the weights in the result of `packed`, or the differences as int64 arrays: the weights of `before` are
    added unless the bytes have the `whole` weights. Raises FleetError for bytes that are damaged or belong to another
    model.
    """
    try:
        # The size of these weights limits the memory, even if the bytes are damaged.
        most = sum(1 + 4 * array.size for array in before.values())
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise FleetError(f"damaged weights: {error}") from None
    found, at = {}, 0
    for name, array in before.items():
        kind = content[at] if at < len(content) else len(_TYPES)
        if kind >= len(_TYPES) or at + 1 + array.size * _TYPES[kind].itemsize > len(content):
            raise FleetError("weights of another model, or cut off")
        change = np.frombuffer(content, _TYPES[kind], array.size, at + 1).reshape(array.shape)
        at += 1 + change.nbytes
        found[name] = change.astype(np.int64) + (0 if whole else array)
    if at != len(content) or not unpacker.eof:
        raise FleetError("weights of another model, or cut off")
    return found


class AveragedWeights:
    """A server's weights. They have fractions of an LSB, so that small changes add up; clients get rounded weights.

    Args:
        model: the ZO model, with the weights of the first round.
        path: path of a file that stores the weights after each round. If it exists, its rounds are resumed.
            None: memory only.

    Attributes:
        round: number of complete rounds.
        weights: rounded weights and biases by tensor name.

    Raises:
        FleetError: the file is not valid, or belongs to another model.
        OSError: the file cannot be read.
    """

    def __init__(self, model: Model, path: str | os.PathLike[str] | None = None) -> None:
        self.model, self._mark = model, fingerprint(model)
        metadata = read_metadata(model)
        self._trainable, biases = metadata.trainable, {t.name for t in metadata.trainable if t.bias}
        self._most = {
            name: 2.0**31 - 1 if name in biases else 127.0 - metadata.headroom for name in initial_weights(model)
        }
        self.round, self._path = 0, None if path is None else Path(path)
        self._exact = {name: w.astype(np.float64) for name, w in initial_weights(model).items()}
        if self._path is not None and self._path.exists():
            self._read(self._path)
        self.weights = self._rounded()

    def _rounded(self) -> dict[str, WeightArray]:
        types = {name: w.dtype for name, w in initial_weights(self.model).items()}
        return {name: np.rint(w).astype(types[name]) for name, w in self._exact.items()}

    @property
    def checksum(self) -> int:
        """Checksum of the rounded weights, 0..2^32-1."""
        return checksum_of(self._trainable, self.weights, {})

    def move(self, changes: Mapping[str, NDArray[Any]]) -> None:
        """Ends a round: updates the weights by mean changes, LSB, by tensor name, within their range, and writes the
        file. FleetError: a tensor is missing or has another shape, or a change is not finite; nothing has changed.
        OSError: the file cannot be written; the round is not complete.
        """
        moved = {}
        for name, own in self._exact.items():
            change = np.asarray(changes.get(name, np.nan), np.float64)
            if change.shape != own.shape or not np.isfinite(change).all():
                raise FleetError(f"`{name}` must have finite changes {list(own.shape)}. Received: {change.shape}.")
            moved[name] = np.clip(own + change, -self._most[name], self._most[name])
        if self._path is not None:
            file = io.BytesIO()
            head = {"/model": np.frombuffer(self._mark, np.uint8), "/round": np.array(self.round + 1)}
            np.savez_compressed(file, **head, **moved)  # type: ignore[arg-type]
            write_output(self._path, file.getvalue(), force=True)
        self.round, self._exact = self.round + 1, moved
        self.weights = self._rounded()

    def _read(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as found:
                mark, number = found["/model"].tobytes(), int(found["/round"])
                exact = {name: np.asarray(found[name], np.float64) for name in self._exact}
        except (KeyError, ValueError) as error:
            raise FleetError(f"{path} has no weights of a fleet: {error}") from error
        if mark != self._mark:
            raise FleetError(f"{path} has the weights of another model")
        self.round, self._exact = number, exact
