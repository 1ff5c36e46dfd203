# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""docs/platforms: each page says what the generated folder says."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest

from helpers.firmware_folders import firmware, zo_model
from helpers.pages import DOCS, blocks, run_command
from tflm_zo.firmware import PLATFORMS, arena


def test_every_platform_has_a_page() -> None:
    assert {page.stem for page in (DOCS / "platforms").iterdir()} == set(PLATFORMS)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_page_says_what_the_generated_readme_says(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = DOCS / "platforms" / f"{platform}.md"
    monkeypatch.chdir(tmp_path)
    zo_model("node").save("lenet5.zo.tflite")
    first, *others = blocks(page)
    # Its bound: measuring takes a second.
    with mock.patch.object(arena, "_recorded", return_value=None):
        run_command(*first.commands)
    folder = Path("lenet5_firmware")
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"--platform {platform}" in first.text and first.text.strip() in readme
    said = {line.strip() for line in readme.splitlines()}
    assert others
    for block in others:
        for line in block.text.splitlines():
            assert line.strip() in said, line
    rows = re.findall(r"^\| (`[^|]*`) \|", page.read_text(), re.M)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(named) > 8
    for name in named:
        assert (folder / name).exists(), name


@pytest.mark.parametrize(
    ("platform", "file", "option"),
    [
        ("cmake", "CMakeLists.txt", "option(TFLM_STRIP_ERROR_STRINGS"),
        ("cmake", "CMakeLists.txt", "cmake_minimum_required(VERSION 3.18)"),
        ("make", "small_zo.mk", "TFLM_STRIP_ERROR_STRINGS ?= 1"),
        ("make", "small_zo.mk", "SMALL_ZO_BUILD_DIR ?= build/small_zo"),
        ("make", "small_zo.mk", "SMALL_ZO_OPTIMIZE ?= -O2"),
        ("arduino", "library.properties", "depends=Arduino_TensorFlowLite"),
        ("arduino", "examples/small/small.ino", "Serial.begin(115200)"),
        ("zephyr", "samples/small/prj.conf", "CONFIG_MAIN_STACK_SIZE=8192"),
        ("esp-idf", "examples/small/sdkconfig.defaults", "CONFIG_ESP_MAIN_TASK_STACK_SIZE=8192"),
        ("esp-idf", "examples/small/sdkconfig.defaults", "CONFIG_ESP_TASK_WDT_INIT=n"),
        ("esp-idf", "idf_component.yml", 'version: ">=1.3.3"'),
        ("esp-idf", "idf_component.yml", 'version: ">=5.1"'),
    ],
)
def test_options_that_pages_name_are_generated(platform: str, file: str, option: str) -> None:
    assert option in firmware(platform).files[file]
