"""Data of users (files, arrays, lists, dictionaries) as one array for each input of a model.

All functions of the package that accept data use `gather`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import lzma
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .errors import DataError

Array = npt.NDArray[Any]

# Exceptions of NumPy and the archives on damaged files: the header of an array is parsed as Python.
_UNREADABLE = (
    *(ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(SyntaxError, tokenize.TokenError, RecursionError),
)


# Beginning of the names of arrays that have labels of one part of a loss.
_PART: Final = "y."


@dataclasses.dataclass(frozen=True)
class Gathered:
    """The result of `gather`."""

    inputs: list[Array]  # array [samples, ...] of each input, in its shape
    names: list[str]  # name of each array in messages
    y: Array | Mapping[str, Any] | None = None  # array `y` of a file or dictionary, arrays `y.KEY` by key, or None
    there: tuple[str, ...] = ()  # names of all arrays in the file or dictionary
    lengths: Array | None = None  # steps of each sequence without its padding; None: all have the same number


@contextlib.contextmanager
def naming(source: object) -> Iterator[None]:
    """Adds the name of a file to the messages of errors in its data; other sources change no message."""
    try:
        yield
    except DataError as error:
        if isinstance(source, str | os.PathLike):
            raise DataError(f"{os.fspath(source)}: {error}") from error
        raise


def read_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Returns the arrays of an ``.npz`` file by their names, or ``x``, the array of an ``.npy`` file. Raises DataError
    if the file cannot be read, or does not hold arrays of numbers.
    """
    with naming(path):
        return _read(path)


def _read(path: str | os.PathLike[str], used: Collection[str] | None = None) -> dict[str, Array]:
    """Reads arrays of a file. Of unused arrays only the names are read."""
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"x": content}
        with content:
            arrays = {
                name: content[name] if used is None or name in used or name.startswith(_PART) else np.empty(0)
                for name in content.files
            }
    except OSError as e:
        raise DataError(f"cannot be read: {e.strerror or e}") from e
    except MemoryError as e:
        raise DataError("does not fit into memory") from e
    except _UNREADABLE as e:
        if str(e).startswith("Object arrays"):
            raise DataError(
                "contains an array of Python objects. Save an array of numbers (np.stack), with sequences of unequal "
                "length padded at their end, and -1 in `y` [samples, steps] for the padded steps"
            ) from e
        raise DataError("no .npz or .npy file of numbers, or damaged") from e
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy gives the bytes of a member that is no array
            raise DataError(f"{name} is no array")
    return arrays


def read_labels(source: Any) -> Any:
    """Reads the labels of an ``.npy`` file or the ``y`` of an ``.npz`` file; returns other labels unchanged. Raises
    DataError, which begins with the file's name, if the file cannot be read, or has no ``y``.
    """
    if not isinstance(source, str | os.PathLike):
        return source
    with naming(source):
        arrays = _read(source, {"x", "y"})
        if (labels := labels_of(arrays)) is not None:
            return labels
        if arrays.keys() != {"x"} or zipfile.is_zipfile(source):
            raise DataError(f"no array `y`; there are: {', '.join(arrays) or 'none'}")
        return arrays["x"]


def labels_of(arrays: Mapping[str, Any]) -> Any:
    """Returns the labels of a file or dictionary of arrays: `y`, or arrays `y.KEY` by key; None if there are none."""
    parts = {name.removeprefix(_PART): array for name, array in arrays.items() if name.startswith(_PART)}
    return arrays.get("y") if "y" in arrays else parts or None


def gather(source: Any, shapes: Mapping[str, Sequence[int]], *, of_steps: bool = False) -> Gathered:
    """Returns the samples of every input of a model, [samples, ...] each, in the shapes of the inputs.

    `source` is an array or list of samples for a model with one input; a list or tuple of them for several inputs; a
    dictionary or the path of an ``.npz`` file with arrays named like the inputs, or ``x`` (for several inputs ``x0``,
    ``x1``, …), and ``y`` for labels; or the path of an ``.npy`` file with the samples of a single input. `shapes` are
    those of one sample by the input's name; dimensions of size 1 may be missing or added. With `of_steps`, samples may
    also be sequences, [samples, steps, ...]; the steps may continue the first dimension of an input. A list or
    object array of sequences of unequal length is padded.

    Raises DataError if the file cannot be read, or an array is missing, has no numbers, is empty or not finite, or has
    another shape or number of samples than expected. The caller puts the file's name before the message, see `naming`.
    """
    names, y = list(shapes), None
    there: tuple[str, ...] = ()
    if isinstance(source, str | os.PathLike):
        source = _read(source, {"x", "y", *names, *_numbered(names)})
    if isinstance(source, Mapping):
        called, there = keys_of(source, names), tuple(map(str, source))
        given = [source[key] for key in called]
        y = None if "y" in called else labels_of(source)
    elif len(names) == 1:
        called, given = ["x"], [_only(source, tuple(shapes[names[0]]), of_steps)]
    else:
        if not isinstance(source, list | tuple) or len(source) != len(names):
            count = len(source) if isinstance(source, list | tuple) else 1
            raise DataError(
                f"x: the model has {len(names)} inputs ({', '.join(names)}), got {count} array(s); give a "
                "list with an array [samples, …] for each, or a dictionary"
            )
        called, given = names, list(source)
    rows: list[Array | None] = [None] * len(given)
    if of_steps:
        given, rows = map(
            list, zip(*(padded(value, name) for name, value in zip(called, given, strict=True)), strict=True)
        )
    arrays = [as_array(value, name) for name, value in zip(called, given, strict=True)]
    for name, array in zip(called, arrays, strict=True):
        if len(array) != len(arrays[0]):
            raise DataError(f"{called[0]} has {len(arrays[0])} samples, {name} has {len(array)}")
    shape_of = in_steps if of_steps else in_shape
    shaped = [shape_of(array, shape, name) for name, array, shape in zip(called, arrays, shapes.values(), strict=True)]
    lengths = [
        _steps_of(own, array, given, shape, name)
        for own, array, given, shape, name in zip(rows, shaped, arrays, shapes.values(), called, strict=True)
        if own is not None
    ]
    if any((own != lengths[0]).any() for own in lengths):
        raise DataError("`x` must have sequences of the same lengths for each input. Received: other lengths.")
    return Gathered(shaped, called, as_labels(y, of_steps=of_steps), there, lengths[0] if lengths else None)


def as_labels(y: Any, *, of_steps: bool) -> Any:
    """Returns labels as an array, of sequences of unequal length with -1 behind the shorter ones; None, and labels by
    part of a loss, as they are.
    """
    if y is None or isinstance(y, Mapping):
        return y
    return as_array(padded(y, "y", -1)[0] if of_steps else y, "y")


def padded(value: Any, name: str, fill: int | None = None) -> tuple[Any, Array | None]:
    """Returns sequences of unequal length, a list or object array of arrays [rows, ...], as one array with `fill` or
    the last row behind the shorter ones, and their lengths; any other value unchanged, and None. Raises DataError if a
    sequence is empty.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim == 1:
        value = list(value)
    if not isinstance(value, list | tuple):
        return value, None
    sequences = [unmasked(sequence, name) for sequence in value]
    lengths = np.array([len(s) if s.ndim else 0 for s in sequences])
    same = len({(s.ndim, *s.shape[1:]) for s in sequences}) == 1 and sequences[0].ndim > 0
    if not same or len(set(lengths.tolist())) == 1:
        return value, None
    if not lengths.all():
        raise DataError(f"`{name}` must have at least one step in each sequence. Received: an empty sequence.")
    most = int(lengths.max())
    behind = [np.full((most - len(s), *s.shape[1:]), s[-1:] if fill is None else fill, s.dtype) for s in sequences]
    return np.stack([np.concatenate(pair) for pair in zip(sequences, behind, strict=True)]), lengths


def _steps_of(rows: Array, shaped: Array, array: Array, shape: Sequence[int], name: str) -> Array:
    """Returns the steps of sequences with so many rows, of which a step of the input may take several."""
    of_step = array.shape[1] // (shaped.shape[1] if shaped.ndim > len(shape) + 1 else 1)
    if (rows % of_step).any():
        wrong = rows[rows % of_step > 0][0]
        raise DataError(f"`{name}` must have sequences of whole steps of {of_step} frames. Received: {wrong} frames.")
    return np.asarray(rows // of_step)


def _numbered(names: list[str]) -> list[str]:
    return [f"x{i}" for i in range(len(names))]


def keys_of(source: Mapping[str, Any], names: list[str]) -> list[str]:
    """Returns the names of a model's inputs in a file or dictionary. Raises DataError if one is missing."""
    for keys in [["x"], names] if len(names) == 1 else [names, _numbered(names)]:
        if all(key in source for key in keys):
            return keys
    there = f"there are: {', '.join(map(str, source)) or 'none'}"
    if len(names) == 1:
        raise DataError(f"no array `x`; {there}{_renamed(source)}")
    raise DataError(
        f"the model has {len(names)} inputs; expected arrays {', '.join(names)} "
        f"(or {', '.join(_numbered(names))}); {there}"
    )


def _renamed(source: Mapping[str, Any]) -> str:
    """Returns advice to rename arrays such as x_train, or ""."""
    part = next((str(key) for key in source if str(key).lower().startswith(("x_", "x-"))), None)
    if part is None:
        return ""
    of_labels = "y" + part[1:]
    labels = next((str(key) for key in source if str(key).lower() == of_labels.lower()), of_labels)
    return f"; np.savez('part.npz', x=data[{part!r}], y=data[{labels!r}]) makes a file of one part"


def _only(source: Any, shape: tuple[int, ...], of_steps: bool) -> Any:
    """Returns the samples of a single input, which may be in a list or tuple of one element."""
    if isinstance(source, list | tuple) and len(source) == 1:
        with contextlib.suppress(DataError):
            return (in_steps if of_steps else in_shape)(as_array(source[0], "x"), shape, "x")
    return source


def as_array(value: Any, name: str) -> Array:
    """Returns the value as an array of numbers, one or more for each sample. Raises DataError if the value is no array
    of numbers, has no samples, is masked, or is not finite.
    """
    array = unmasked(value, name)
    if array.dtype.kind not in "fiub":
        advice = ""
        if array.dtype.kind in "US":
            advice = f"; np.unique({name}, return_inverse=True)[1] numbers the names of classes"
        elif array.dtype.kind == "O" and array.ndim:
            advice = f"; np.stack({name}) makes an array of samples of one shape"
        raise DataError(f"{name} is {array.dtype}, not numbers{advice}")
    if array.ndim == 0:
        raise DataError(f"{name} is a single number, not an array of samples")
    if array.size == 0:
        raise DataError(f"{name} is empty (shape {list(array.shape)})")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{name} contains NaN or infinity")
    return array


def unmasked(value: Any, name: str) -> Array:
    """Returns the value as an array without a mask. DataError: values are masked, or samples differ in shape."""
    if any(map(np.ma.is_masked, value if isinstance(value, list | tuple) else (value,))):
        raise DataError(
            f"{name} has masked values, which are no numbers; give {name}.filled(…), or leave the samples out"
        )
    try:
        return np.asarray(value)
    except ValueError as error:
        raise DataError(f"{name}: its samples differ in shape, so they make no array") from error


def in_shape(array: Array, shape: Sequence[int], name: str) -> Array:
    """Returns samples, in which dimensions of size 1 may be missing or extra, as [samples, *shape] for the shape of a
    model's input. Raises DataError, with the samples' name, if the shapes differ.
    """
    if sizes(array.shape[1:]) != sizes(shape):
        raise DataError(f"`{name}` must have samples of shape {list(shape)}. Received: {list(array.shape[1:])}.")
    return array.reshape(len(array), *shape)


def in_steps(array: Array, shape: Sequence[int], name: str) -> Array:
    """Returns samples as `in_shape` does, or sequences of several steps as [samples, steps, *shape]."""
    given, wanted = sizes(array.shape[1:]), sizes(shape)
    values = math.prod(wanted)
    longer = given[1:] in (wanted, wanted[1:]) and math.prod(given) % values == 0
    if given == wanted or not longer:
        return in_shape(array, shape, name)
    return array.reshape(len(array), -1, *shape)


def sizes(shape: Sequence[int]) -> list[int]:
    """Returns a shape without its dimensions of size 1."""
    return [n for n in shape if n != 1]


def class_labels(y: Array, classes: int, places: int = 1) -> npt.NDArray[np.int32]:
    """Returns class labels, int32 [samples], of several places [samples, places], of integers, -1 for no label, or
    one-hot [..., classes], of at least 2 classes. DataError: the labels are neither, or a label is out of range.
    """
    shape = (places,) if places > 1 else ()
    if y.size != len(y) * places * classes:
        return integer_labels(y, shape, classes)
    rows = y.reshape(-1, classes)
    if not np.isin(rows, (0, 1)).all() or (rows.sum(1) != 1).any():
        raise DataError(
            f"y: shape {list(y.shape)} is that of one-hot labels, which hold a single 1 in each row, else 0; "
            f"of scores y.argmax(1) makes labels{_first_column(y, classes)}"
        )
    return np.asarray(rows.argmax(1), np.int32).reshape(len(y), *shape)


def _first_column(y: Array, classes: int) -> str:
    """Returns advice for a table with labels in its first column, as Edge Impulse exports it, or ""."""
    if y.ndim != 2 or y.dtype.kind not in "iu" or y.shape[1] < 2:
        return ""
    first, label = y[:, 0], "y[:, 0]"
    if first.min() >= 1 and first.max() == classes:
        label += " - 1"
    elif first.min() < -1 or first.max() >= classes:
        return ""
    return f"; of a table whose first column has the labels, as Edge Impulse's, give {label}"


def integer_labels(y: Array, shape: tuple[int, ...], classes: int) -> npt.NDArray[np.int32]:
    """Returns labels 0 to classes - 1, and -1 for no label, int32 [samples, *shape]. Raises DataError if the labels'
    type, number or range is wrong.
    """
    if y.dtype.kind not in "iub":
        raise DataError(f"y is {y.dtype}; labels are integers, which y.astype(int) makes of whole numbers")
    values = int(np.prod(shape))
    if y.size != len(y) * values:
        column = _first_column(y, classes) if values == 1 else ""
        raise DataError(f"`y` must have {values} label(s) per sample. Received: shape {list(y.shape)}{column}")
    # Compared in their own type: the largest uint64 is no -1.
    wrong = y[(y < -1) | (y >= classes)]
    if wrong.size:
        less = "; these begin at 1: give y - 1" if y.min() == 1 and y.max() == classes else ""
        raise DataError(
            f"y: label {wrong.flat[0]} is out of range. It must be in 0..{classes - 1}, or -1 for no label{less}"
        )
    return y.astype(np.int32).reshape(len(y), *shape)


def check_count(y: Array, samples: int, name: str) -> None:
    """Raises DataError if the numbers of labels and samples differ."""
    if len(y) != samples:
        raise DataError(f"{name} has {samples} samples, y has {len(y)} labels")
