# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The versions that docs/file-formats.md names are those of what is written, and other ones are refused."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tflm_zo as zo
from device.emulation import Store, needs_compiler
from device.runs import device
from helpers.commands import invoke
from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from helpers.pages import DOCS
from helpers.runs import random_samples
from link.direct import CLOCK, DirectPort
from tflm_zo.converters import ConversionError, inject, load_model
from tflm_zo.converters.channel_statistics import STATISTICS_NAME, read_statistics, with_statistics
from tflm_zo.converters.constants import METADATA_NAME
from tflm_zo.converters.metadata import read_metadata
from tflm_zo.converters.model import Buffer, Model
from tflm_zo.link import Link, LinkError
from tflm_zo.link.protocol import Operation, request
from tflm_zo.logs import LogError
from tflm_zo.recalibration import channel_statistics_of
from tflm_zo.runtime import load

X, Y = random_samples(1, 16)
PLAIN = MODELS["small_cnn"]()
ROW = re.compile(r"^\| ([^|]+) \| (\d+) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def said() -> dict[str, int]:
    """Versions by the name of their format, as the page has them."""
    section = (DOCS / "file-formats.md").read_text(encoding="utf-8").partition("\n## Versions\n")[2]
    found = ROW.findall(section.partition("\n## ")[0])
    return {name: int(version) for name, version in found}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind, with its model and log."""
    folder = tmp_path_factory.mktemp("formats")
    (folder / "plain.tflite").write_bytes(PLAIN)
    for name, settings in (("seed", zo.algorithms.weight), ("snapshot", zo.algorithms.node)):
        trainer = zo.Trainer(PLAIN, settings(batch_size=8, learning_rate=1.0))
        trainer.fit(X, Y, steps=2, log=folder / f"{name}.zolog")
        trainer.model.save(folder / f"{name}.zo.tflite")
    return folder


def test_every_format_of_the_page_is_tested(said: dict[str, int]) -> None:
    tested = set(re.findall(r'said\["([^"]+)"\]', Path(__file__).read_text(encoding="utf-8")))
    tested |= {f"{kind} log" for kind in ("seed", "snapshot")}
    assert tested == set(said)
    assert f"tflm_zo {zo.__version__} writes" in (DOCS / "file-formats.md").read_text(encoding="utf-8")


def test_metadata(said: dict[str, int]) -> None:
    model = inject(PLAIN)
    entry = model.find_metadata(METADATA_NAME)
    content = json.loads(entry.buffer.data)
    assert content["version"] == said["metadata of a ZO model"]
    for version in (content["version"] - 1, content["version"] + 1):
        entry.buffer = Buffer(json.dumps({**content, "version": version}).encode())
        with pytest.raises(ConversionError, match=f"has version {version}, not {content['version']}"):
            read_metadata(model)
    # A field that joins a version is none of another version's concern.
    entry.buffer = Buffer(json.dumps({**content, "joined": 1}).encode())
    assert read_metadata(model).version == content["version"]


def operators(model: Model) -> Iterator[Any]:
    return (op for graph in model.subgraphs for op in graph.operators if op.custom_options)


@pytest.mark.parametrize("runtime", ["litert", "tflm"])
def test_options_of_operators(said: dict[str, int], runtime: str) -> None:
    require(runtime)
    model = inject_all(PLAIN)
    version = said["options of the custom operators"]
    load(model, runtime)
    own = {op.code.name: op for op in operators(model)}
    assert len(own) == 4  # replay, update, perturb, loss
    for op in own.values():
        assert op.custom_options[0] == version
        written = op.custom_options
        op.custom_options = bytes([version + 1]) + written[1:]
        with pytest.raises((zo.runtime.ModelError, zo.runtime.InvokeError)):
            load(model, runtime)
        op.custom_options = written


def test_statistics_of_channels(said: dict[str, int]) -> None:
    model = load_model(PLAIN)
    model = with_statistics(model, channel_statistics_of(model, X))
    entry = model.find_metadata(STATISTICS_NAME)
    version = said["statistics of channels"]
    assert int.from_bytes(entry.buffer.data[:2], "little") == version
    assert read_statistics(model) is not None
    entry.buffer = Buffer((version + 1).to_bytes(2, "little") + entry.buffer.data[2:])
    with pytest.raises(ConversionError, match=f"version {version + 1} is not known"):
        zo.recalibrate(model, X)
    assert zo.recalibrate(model, X, source=X[:8]).source_samples == 8


@pytest.mark.parametrize("kind", ["seed", "snapshot"])
def test_logs(said: dict[str, int], kind: str, folder: Path, tmp_path: Path) -> None:
    data = (folder / f"{kind}.zolog").read_bytes()
    assert data[8] == said[f"{kind} log"]
    written = {said["seed log"], said["snapshot log"]}
    for version in sorted({*range(1, 7)} - written):
        path = tmp_path / f"{version}.zolog"
        path.write_bytes(data[:8] + bytes([version]) + data[9:])
        done = invoke("replay", folder / f"{kind}.zo.tflite", path, "-o", tmp_path / "out.tflite")
        assert done.exit_code == 1 and not (tmp_path / "out.tflite").exists()
        older = version < min(written)
        assert ("of an older version" if older else "of this version, or its header is") in done.output
        with pytest.raises(LogError):
            zo.training.replay_log(folder / f"{kind}.zo.tflite", path)


@needs_compiler
def test_the_link(said: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tflm_zo.link.link"], "time", CLOCK)
    assert request(Operation.HELLO, 1)[0] == said["link"]
    port = DirectPort(device("node"), Store())
    with Link(lambda: port, timeout=1) as link:
        link.hello()
    other = said["link"] + 1
    for module in ("protocol", "link"):
        monkeypatch.setattr(sys.modules[f"tflm_zo.link.{module}"], "VERSION", other)
    with (
        Link(lambda: port, timeout=1) as link,
        pytest.raises(LinkError, match=f"speaks version {said['link']} .* this tflm-zo version {other}"),
    ):
        link.hello()


def test_json(said: dict[str, int], folder: Path) -> None:
    def printed(*words: Any) -> Any:
        done = invoke(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert printed("plan", folder / "plain.tflite", "--board", "pico")["schema"] == said["JSON of `plan`"]
    version = said["JSON of `report` and `inspect --report`"]
    assert printed("report", folder / "seed.zolog", "-o", folder / "report.html")["version"] == version
    page = folder / "model.html"
    printed("inspect", folder / "seed.zo.tflite", "--report", page)
    embedded = re.search(r'id="report"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert json.loads(embedded[1])["version"] == version
