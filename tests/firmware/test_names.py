"""Names in generated folders: nothing of one is called as something of another, so a program can have both.

tests/tflm_checkout/test_two_models.py builds such a program; here are the C sources alone, on this machine.
"""

import re
import shutil
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from helpers.examples import slow_but
from helpers.firmware_folders import zo_model
from tflm_zo.firmware import PLATFORMS, Firmware, arena, generate_firmware
from tflm_zo.firmware.op_pack import of_model, op_pack_sources, without_model
from tflm_zo.firmware.reachability import identifiers

KINDS = {"first": "node", "second": "weight"}
SHARED = {"CMakeLists.txt", "Kconfig", "README.md", "library.properties", "zephyr/module.yml"}
SHARED |= {"idf_component.yml", "zo_files.sha256"}
needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("nm") is None, reason="NO gcc: NO SYMBOL WAS COMPARED"
)


def folder(name: str, platform: str = "cmake") -> Firmware:
    with mock.patch.object(arena, "recorded", return_value=None):
        return generate_firmware(
            zo_model(KINDS[name]), steps=3, samples=5, platform=platform, name=name, command="made"
        )


@needs_gcc
def test_no_symbol_is_in_both(tmp_path: Path) -> None:
    found = []
    for name in KINDS:
        folder(name).write(tmp_path / name)
        sources = sorted((tmp_path / name).glob("*.c"))
        assert [source.name for source in sources] == [f"{name}_zo_ops.c"]
        for source in sources:
            subprocess.run(["gcc", "-std=c99", "-I.", "-c", source], cwd=tmp_path / name, check=True)
        objects = sorted((tmp_path / name).glob("*.o"))
        done = subprocess.run(["nm", *objects], capture_output=True, text=True, check=True)
        defined = set(re.findall(r"^[0-9a-f]+ [A-TV-Z] (\S+)$", done.stdout, re.M))
        assert len(defined) > 40 and all(symbol.startswith(f"{name}_zo_") for symbol in defined)
        found.append(defined)
    assert found[0] & found[1] == set()


@pytest.mark.parametrize("platform", slow_but(("cmake", "arduino"), PLATFORMS))
def test_files_macros_and_namespaces_have_the_models_name(platform: str) -> None:
    for name in KINDS:
        for path, text in folder(name, platform).files.items():
            if path.startswith(("examples/", "samples/")) or path in {*SHARED, "main.cc"}:
                continue
            assert Path(path).name.startswith(name), path
            macros = re.findall(r"(?m)^\s*#\s*define (\w+)", text) if path.endswith(".h") else []
            own = rf"(TFLM_)?{name.upper()}_"
            assert [m for m in macros if not re.match(own, m)] == [], path
            spaces = set(re.findall(r"(?m)^namespace (\w+) \{", text))
            assert spaces <= {f"{name}_zo", "tflite"}, path
            if path.endswith(".mk"):
                variables = set(re.findall(r"(?m)^(\w+) [:?]?=", text))
                assert {v for v in variables if not v.startswith((f"{name.upper()}_ZO_", "TFLM_"))} == set()


def test_only_names_change() -> None:
    # Without the model's name in front, the op pack is unchanged: names that users read, and names of tensors
    # and operators, are the same for all.
    sources = op_pack_sources()
    renamed = of_model(sources, "kws")
    assert len(renamed) == len(sources)
    for path, text in sources.items():
        own = renamed[re.sub(r"/zo_", "/kws_zo_", path)]
        back = own.replace("Add_kws_zo_", "AddZo").replace("KWS_ZO_", "ZO_")
        back = re.sub(r"\bkws_zo(?=::|( \{$|$))", "tflm_zo", back.replace("kws_zo_", "zo_"), flags=re.M)
        assert back == text, path
        literals = r'(?m)(?<!include )"((?:[^"\\\n]|\\.)*)"'
        if path.endswith(".c"):
            assert re.findall(literals, own) == re.findall(literals, text), path
    assert '"TFLM_ZO_%s: %s"' in renamed["ops/tflm/kws_zo_ops.cc"]


def test_names_of_the_op_pack_come_back() -> None:
    sources = op_pack_sources()
    for (path, text), own in zip(sources.items(), of_model(sources, "kws").values(), strict=True):
        assert identifiers(without_model(own, "kws")) - {"tflm_zo", "kws_zo"} == identifiers(text) - {"tflm_zo"}, path
