"""The library and the headers: structs, prototypes, a build for size, the directory that ops write."""

import ctypes
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.oracle.fixed_losses import exp2_negative, log2
from tflm_zo.core import CSettings, Directory, library
from tflm_zo.core.loader import Declarations, constants, structs

CORE = Path(__file__).parents[2] / "ops" / "core"
# The kernels' headers stand for each other, one for each instruction set.
HEADERS = sorted(h for h in CORE.rglob("zo_*.h") if h.parent.name != "kernels")
STRUCTS: dict[str, Any] = vars(structs)


@pytest.mark.skipif(shutil.which("cc") is None, reason="NO C COMPILER: layouts were not compared")
def test_layouts_and_constants_are_the_compilers(tmp_path: Path) -> None:
    """Prints them with a program, by the names of the fields in Python."""
    asked = [f"sizeof({name})" for name in STRUCTS]
    expected = [ctypes.sizeof(struct) for struct in STRUCTS.values()]
    for name, struct in STRUCTS.items():
        for field, *_ in struct._fields_:
            asked += [f"offsetof({name}, {field})", f"sizeof((({name}*)0)->{field})"]
            expected += [getattr(struct, field).offset, getattr(struct, field).size]
    asked += [f"(size_t){name}" for name in vars(constants)]
    expected += vars(constants).values()
    lines = [f'#include "{header}"' for header in HEADERS]
    lines += ["#include <stdio.h>", "int main(void) {", *(f'printf("%zu\\n", {a});' for a in asked), "}"]
    (tmp_path / "layouts.c").write_text("\n".join(lines))
    program = str(tmp_path / "layouts")
    subprocess.run(
        ["cc", "-std=c99", "-DZO_KERNEL_SETS=1", f"-I{CORE.parents[1]}", f"{program}.c", "-o", program, "-w"],
        check=True,
    )
    found = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [int(line) for line in found.split()] == expected


def test_no_field_is_missing() -> None:
    """Compares every struct in Python with the headers' fields, in their order."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(h.read_text() for h in HEADERS), flags=re.DOTALL)
    for name, struct in STRUCTS.items():
        body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", text, re.DOTALL)
        assert body is not None, name
        fields = re.findall(r"(\w+)(?:\[\w+\])?\s*[,;]", body[1])
        assert [field for field, *_ in struct._fields_] == fields, name


def test_unknown_fields_are_refused() -> None:
    report = structs.zo_report()
    with pytest.raises(AttributeError):
        report.mean_lose = 1
    with pytest.raises(AttributeError):
        CSettings(learning_rate=1)


def test_structs_are_handed_over_by_their_own_type() -> None:
    with pytest.raises(ctypes.ArgumentError):
        library().zo_control_words(structs.zo_report())
    with pytest.raises(ctypes.ArgumentError):
        library().zo_distribution_reach(structs.zo_scale())


@pytest.mark.parametrize(("at", "size", "whole"), [(8, 4, 12), (4, 2, 8), (4, 4, 16)], ids=["offset", "size", "struct"])
def test_another_layout_is_refused(at: int, size: int, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuses declarations of a compiler with another layout of structs."""
    table = [("zo_pair", "struct", 0, whole), ("a", "uint32_t", 0, 4), ("b", "int32_t", at, size)]
    monkeypatch.setattr("tflm_zo.core.loader._declared", lambda loaded: iter(table))
    with pytest.raises(ImportError, match="zo_pair: ctypes lays it out otherwise than the compiler"):
        Declarations(library())
    table[:] = [("zo_pair", "struct", 0, 8), ("a", "uint32_t", 0, 4), ("b", "int32_t", 4, 4)]
    assert ctypes.sizeof(Declarations(library()).structs["zo_pair"]) == 8


# --- a build for size: values computed instead of tables ----------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("small") / "small.so"
    sources = [CORE / "math/zo_log2.c", CORE / "log/zo_crc32.c"]
    flags = ["-std=c99", "-Os", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run(["gcc", *flags, f"-I{CORE.parents[1]}", *sources, "-o", library], check=True, timeout=60)
    loaded = ctypes.CDLL(str(library))
    loaded.zo_exp2_negative.restype = loaded.zo_log2.restype = loaded.zo_crc32.restype = ctypes.c_uint32
    loaded.zo_log2.argtypes = [ctypes.c_uint64]
    return loaded


def test_exponentials(small: ctypes.CDLL) -> None:
    around = [i * 2**18 + d for i in range(64) for d in (0, 1, 2**17, 2**18 - 1)]
    for x in [*around, *(x + 5 * 2**24 for x in around), 31 * 2**24 - 1]:
        assert small.zo_exp2_negative(x) == exp2_negative(x), x


def test_logarithms(small: ctypes.CDLL) -> None:
    around = [2**30 + i * 2**24 + d for i in range(64) for d in (0, 1, 2**23, 2**24 - 1)]
    for x in [*around, *(x << 7 for x in around), 2**62 - 1]:
        assert small.zo_log2(x) == log2(x), x


def test_checksums(small: ctypes.CDLL) -> None:
    data = bytes(i * 37 % 256 for i in range(1000))
    assert small.zo_crc32(0, data, len(data)) == zlib.crc32(data)
    assert small.zo_crc32(zlib.crc32(data[:300]), data[300:], 700) == zlib.crc32(data)


# --- the directory, as the op pack writes it --------------------------------------------------------------


def publish(directory: Directory, stream: int, weights: np.ndarray, fraction: np.ndarray | None) -> None:
    """Publishes weights like an op: at the address of the directory."""
    header = structs.zo_directory.from_address(directory.address)
    assert header.magic == constants.ZO_DIRECTORY_MAGIC
    entries = (structs.zo_directory_entry * header.capacity).from_address(
        ctypes.cast(header.entries, ctypes.c_void_p).value
    )
    entry = entries[header.count]
    entry.stream, entry.size, entry.weights = stream, weights.size, weights.ctypes.data
    entry.fraction = None if fraction is None else fraction.ctypes.data
    header.count += 1


def test_views_alias_the_memory() -> None:
    directory = Directory(2)
    weights, fraction, other = (np.arange(n, n + 5, dtype=np.int8) for n in (0, 10, 20))
    publish(directory, 7, weights, fraction)
    publish(directory, 3, other, None)
    found, own_fraction = directory.find(7)
    assert own_fraction is not None
    np.testing.assert_array_equal(found, weights)
    np.testing.assert_array_equal(own_fraction, fraction)
    assert directory.find(3)[1] is None
    found[2] = -9
    assert weights[2] == -9


def test_what_was_not_published_is_not_there() -> None:
    directory = Directory(2)
    with pytest.raises(KeyError):
        directory.find(0)  # an empty entry has the number 0, too
    publish(directory, 1, np.zeros(3, np.int8), None)
    with pytest.raises(KeyError):
        directory.find(0)
