"""The installed shared library: its exports, its dependencies, its content."""

import shutil
import subprocess
import sys

import pytest

from tflm_zo import core

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at an ELF file"),
    pytest.mark.skipif(shutil.which("readelf") is None, reason="NO BINUTILS: the shared library was not inspected"),
]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def path():
    return str(core.library_path())


@pytest.fixture(scope="module")
def exports(path):
    return {line.split()[-1] for line in run("nm", "-D", "--defined-only", path).splitlines()}


def test_exports_nothing_else(exports):
    prefixes = ("zo_", "tflite_plugin_", "TFLM_ZO_")
    assert {name for name in exports if not name.startswith(prefixes)} == set()


def test_exports_what_runtimes_look_up(exports):
    delegate = {"tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate"}
    assert delegate | {"TFLM_ZO_Register"} <= exports


def test_needs_only_the_c_library(path):
    lines = run("readelf", "-d", path).splitlines()
    needed = {line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line}
    # libm for the adapters, which prepare multipliers; that the core has no use for it is tested elsewhere.
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def test_needs_no_runtime_symbols(path):
    """A delegate is loaded into runtimes that export none."""
    undefined = run("nm", "-D", "--undefined-only", path).split()
    names = {name.split("@")[0] for name in undefined if len(name) > 1}
    tflite = {name for name in names if "tflite" in name.lower() or name.startswith("_Z")}
    assert tflite == set()


def test_is_small(path):
    """Limits the library to 133 kilobytes of code for microcontrollers, SVDF and LSTM included, and 132 of kernels for
    processors.
    """
    sections = dict(line.split()[:2] for line in run("size", "-A", path).splitlines() if line[:1] == ".")
    code = int(sections[".text"])
    print(f"\n{code} bytes of code")
    assert code < 265_000
