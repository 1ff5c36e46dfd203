"""Data files that do not fit a model, and invalid archives."""

import io
import zipfile
from random import Random
from typing import Any

import numpy as np

from .values import damaged, integer

TYPES = (
    *("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "f16", ">f4", ">i8"),
    *("c8", "c16", "U3", "S3", "M8[s]", "m8[s]", "V4"),
)


def mutated(rng: Random, arrays: dict[str, Any]) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        return damaged(rng, saved(arrays))
    content: dict[str, Any] = {name: np.array(value) for name, value in arrays.items()}
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(content))
        content[name] = changed(rng, content[name])
        if rng.random() < 0.15:
            content[rng.choice(("x", "y", "x0", "x1", "X", "", "other"))] = content.pop(name)
    if kind < 0.2:
        return archive(rng, content)
    if kind < 0.25:
        file = io.BytesIO()
        np.save(file, next(iter(content.values())), allow_pickle=True)
        return file.getvalue()
    return saved(content)


def saved(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def archive(rng: Random, arrays: dict[str, Any]) -> bytes:
    """Writes members of a zip archive by hand: damaged headers, other methods, the same name twice."""
    file = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(file, "w", method) as z:
        for name, value in arrays.items():
            member = io.BytesIO()
            np.save(member, value, allow_pickle=True)
            data = member.getvalue()
            if rng.random() < 0.6:
                cut = min(len(data), 128)
                header = damaged(rng, data[:cut])
                if rng.random() < 0.5:
                    header = data[:cut].replace(b"(", rng.choice((b"(-", b"(9", b"((", b"(0x", b"(1e9,")), 1)
                data = header + data[cut:]
            # zipfile writes no file without a name.
            z.writestr(f"{name}{rng.choice(('.npy', '.npy', '.npy', '', '.txt'))}" or ".npy", data)
    return file.getvalue()


def changed(rng: Random, array: Any) -> Any:
    kind = rng.randrange(10)
    if kind < 3:
        with np.errstate(all="ignore"):
            try:
                return array.astype(rng.choice(TYPES))
            except (TypeError, ValueError, RuntimeError):  # one is raised for times
                return array
    if kind == 3:
        return array[: rng.choice((0, 1, 2))] if array.ndim else array
    if kind == 4:
        return array.reshape(rng.choice(((-1,), (*array.shape, 1), (1, *array.shape))))
    if kind == 5:
        return np.swapaxes(array, 0, -1) if array.ndim else array
    if kind == 6:
        return np.array(rng.choice((3, 2.5, "text", None, [], [[]], {"a": 1})))
    if array.size == 0 or array.dtype.kind not in "fiub":
        return array
    flat = array.reshape(-1).copy()
    if kind == 7 and array.dtype.kind == "f":
        flat[rng.randrange(flat.size)] = rng.choice((np.nan, np.inf, -np.inf, 1e30, -1e30))
    elif array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        flat[rng.randrange(flat.size)] = max(limits.min, min(limits.max, integer(rng)))
    else:
        with np.errstate(over="ignore"):
            flat = (flat * rng.choice((0, 255, 1e6, -1))).astype(array.dtype)
    return flat.reshape(array.shape)
