"""Files of arrays: accepted ones, and refusals in a line that begins with the file's name."""

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tflm_zo.data import DataError, read_arrays


def test_read(tmp_path: Path) -> None:
    x, y = np.ones((3, 2), np.float32), np.arange(3)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    np.save(tmp_path / "x.npy", x)
    for path in (tmp_path / "a.npz", str(tmp_path / "a.npz")):
        found = read_arrays(path)
        assert list(found) == ["x", "y"]
        np.testing.assert_array_equal(found["x"], x)
        np.testing.assert_array_equal(found["y"], y)
    (array,) = read_arrays(tmp_path / "x.npy").values()
    np.testing.assert_array_equal(array, x)


def refused(path: Path, said: str) -> None:
    with pytest.raises(DataError, match=re.escape(f"{path}: {said}")):
        read_arrays(path)


def test_files_that_hold_no_arrays(tmp_path: Path) -> None:
    refused(tmp_path / "absent.npz", "cannot be read: No such file or directory")
    refused(tmp_path, "cannot be read: Is a directory")
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros(3), y=np.zeros(3))
    whole = path.read_bytes()
    for content in (b"", b"no archive", whole[: len(whole) // 2]):
        path.write_bytes(content)
        refused(path, "no .npz or .npy file of numbers, or damaged")
    np.savez(path, x=np.array([None]))
    refused(path, "contains an array of Python objects. Save an array of numbers (np.stack), with sequences")


@pytest.mark.parametrize("header", [b"{'descr': '<f4', 'shape': (1", b"{'descr': [[[[", b"((((", b"9"])
def test_array_headers_that_are_no_python(tmp_path: Path, header: bytes) -> None:
    """NumPy's reader parses them as Python, whose tokenizer and parser have errors of their own."""
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        text = header.ljust(117) + b"\n"
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    refused(path, "no .npz or .npy file of numbers, or damaged")


def test_members_that_are_no_arrays(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, x=np.zeros(3, np.float32))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y.npy", b"text")
    refused(path, "y is no array")
