"""Versions and bytes in docs/file-formats.md are the written ones, and other versions are refused."""

import json
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tflm_zo as zo
from device.emulation import Store, needs_compiler
from device.runs import device
from helpers.commands import invoke
from helpers.injection import inject_all
from helpers.interpreters import require
from helpers.models import MODELS
from helpers.pages import DOCS, blocks
from helpers.runs import random_samples
from link.direct import CLOCK, DirectPort
from tflm_zo.converters import ConversionError, inject, load_model
from tflm_zo.converters.channel_statistics import STATISTICS_NAME, read_statistics, with_statistics
from tflm_zo.converters.constants import METADATA_NAME
from tflm_zo.converters.metadata import read_metadata
from tflm_zo.converters.model import Buffer, Model
from tflm_zo.core import THRESHOLD_STEP, Measurement
from tflm_zo.link import Link, LinkError
from tflm_zo.link.protocol import Operation, request
from tflm_zo.logs import Log, LogError, keep_threshold
from tflm_zo.recalibration import channel_statistics_of
from tflm_zo.runtime import load

X, Y = random_samples(1, 16)
PLAIN = MODELS["small_cnn"]()
ROW = re.compile(r"^\| ([^|]+) \| (\d+) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def said() -> dict[str, int]:
    section = (DOCS / "file-formats.md").read_text(encoding="utf-8").partition("\n## Versions\n")[2]
    found = ROW.findall(section.partition("\n## ")[0])
    return {name: int(version) for name, version in found}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
            zo.logs.replay_log(folder / f"{kind}.zo.tflite", path)


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


# --- bytes --------------------------------------------------------------------------------------------------

SIZES = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "i64": "q"}
Fields = list[tuple[int | str, str, str]]


def tables(heading: str) -> list[Fields]:
    page = (DOCS / "file-formats.md").read_text(encoding="utf-8")
    section = re.split(r"\n#+ ", page.partition(f" {heading}\n")[2])[0]
    found = re.findall(r"^\| ---: \| --- \| --- \|\n((?:\| .*\n)+)", section, re.MULTILINE)
    rows = [[[c.strip() for c in line.strip("|").split("|")] for line in t.splitlines()] for t in found]
    return [[(int(at) if at.isdigit() else at, kind, what) for at, kind, what in table] for table in rows]


def read(data: bytes, begin: int, at: int, kind: str) -> int | tuple[int, ...]:
    single, _, many = kind.partition(" ")
    found = struct.unpack_from(f"<{many.strip('[]')}{SIZES[single]}", data, begin + at)
    return found if many else found[0]


def values(data: bytes, begin: int, table: Fields) -> dict[str, Any]:
    """Reads the fields of a table from bytes, by the first words of its meanings, or names between backticks."""
    fixed = [(at, kind, what) for at, kind, what in table if isinstance(at, int) and kind.split()[0] in SIZES]
    plain = [row for row in fixed if not row[1].endswith("[queries]")]
    return {re.split(r"[`,:;]", what.lstrip("`"))[0]: read(data, begin, at, kind) for at, kind, what in plain}


@pytest.mark.parametrize("kind", ["seed", "snapshot"])
def test_bytes_of_a_header(kind: str, folder: Path) -> None:
    data = (folder / f"{kind}.zolog").read_bytes()
    log = Log.read(folder / f"{kind}.zolog", layerwise=kind != "seed")
    first, *own = tables("Header")
    found = values(data, 0, first)
    settings = dict(log.settings.numbers())
    distribution = settings.pop("distribution")
    assert found.pop("distribution") == distribution[0] << 24 | distribution[1] << 16 | distribution[2]
    assert found.pop("stage_p_zero") == settings["stage_p_zero"][0] | settings.pop("stage_p_zero")[1] << 8
    assert found.pop("reserved") == (0, 0)
    assert {name: found[name] for name in settings} == settings
    assert found["fingerprint of the ZO model"] == tuple(log.fingerprint)
    size = found["bytes of the header"]
    assert read(data, size - 4, 0, "u32") == zlib.crc32(data[: size - 4])
    rest = values(data, 0, own[kind == "snapshot"])
    assert rest["steps between measurements"] == log.measure_every > 0
    if kind == "seed":
        assert size == 132
    else:
        assert size == 160 + 32 * len(log.tasks) + 4
        assert rest["steps between snapshots"] == log.interval
        assert rest["bytes of a snapshot's weights"] == log.weight_bytes
        assert rest["checksum of samples and labels"] == log.data_checksum


def test_bytes_of_a_seed_log(folder: Path) -> None:
    """Records and measurements fill the rest behind the header; each checksum continues the one before."""
    data, log = (folder / "seed.zolog").read_bytes(), Log.read(folder / "seed.zolog")
    record, _, measurement, _ = tables("Records")
    size = 20 + 4 * log.settings.queries
    at, checksum = 132, zlib.crc32(data[:128])
    losses, measured = [], []
    for part in ["measurement", *["record", "measurement"] * len(log.losses)]:
        of_step = part == "record"
        if not of_step and len(losses) not in {m.step for m in log.measurements}:
            continue
        bytes_ = size if of_step else 28
        checksum = zlib.crc32(data[at : at + bytes_ - 4], checksum)
        assert read(data, at + bytes_ - 4, 0, "u32") == checksum
        found = values(data, at, record if of_step else measurement)
        if of_step:
            assert found["step"] == len(losses)
            losses.append(found["mean loss of the step"])
        else:
            loss = found["sum of their losses"] / 65536 / found["samples that have a label"]
            measured.append((found["whole steps done"], loss, found["outputs that were right"]))
        at += bytes_
    assert at == len(data)
    assert [loss / 65536 for loss in losses] == list(log.losses)
    wanted = [(m.step, pytest.approx(m.loss), m.correct) for m in log.measurements]
    assert measured == wanted and len(measured) > 1


def test_bytes_of_a_snapshot_log(folder: Path) -> None:
    data, log = (folder / "snapshot.zolog").read_bytes(), Log.read(folder / "snapshot.zolog")
    assert log.snapshot is not None
    (slot,), (_, record, measurement, _) = tables("Slots"), tables("Records")
    header, tasks = 164 + 32 * len(log.tasks), len(log.tasks)
    checksum = zlib.crc32(data[: header - 4])
    size = 16 + 8 * tasks + log.weight_bytes + 4
    found = [values(data, header + i * size, slot) for i in range(3)]
    used = [i for i in range(3) if found[i]["checksum of the header that it belongs to"] == checksum]
    for i in used:
        begin = header + i * size
        assert read(data, begin + size - 4, 0, "u32") == zlib.crc32(data[begin : begin + size - 4])
    assert (2 in used) == (log.best_slot is not None)
    assert max(found[i]["whole steps done"] for i in used if i < 2) == len(log.losses)
    at = header + 3 * size
    for step in range(len(log.losses) + 1):
        if step in {m.step for m in log.measurements}:
            assert values(data, at, measurement)["whole steps done"] == step
            at += 28
        if step < len(log.losses):
            mine = values(data, at, record)
            assert mine["step"] == step and mine["mean loss of the step"] / 65536 == log.losses[step]
            assert mine["checksum"] == zlib.crc32(data[at : at + 8], checksum)
            at += 12
    assert at == len(data)


@pytest.mark.parametrize("kind", ["seed", "snapshot"])
def test_bytes_of_a_threshold(kind: str, folder: Path, tmp_path: Path) -> None:
    before, path = (folder / f"{kind}.zolog").read_bytes(), tmp_path / "run.zolog"
    path.write_bytes(before)
    keep_threshold(path, Measurement(THRESHOLD_STEP, 90, 1234, 9950, 77))
    data, at = path.read_bytes(), len(before)
    header = read(data, 10, 0, "u16")
    continued = read(data, at - 4 if kind == "seed" else header - 4, 0, "u32")
    assert data[:at] == before and len(data) == at + 28
    assert list(values(data, at, tables("Records")[3]).values()) == [
        *(2**32 - 1, 90, 1234, 9950, 77),
        zlib.crc32(data[at : at + 24], continued),
    ]


@pytest.mark.parametrize("kind", ["seed", "snapshot"])
def test_example_of_the_page(kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that the example reads either kind of log, and stops where a log was cut off."""
    example = next(b.text for b in blocks(DOCS / "file-formats.md", "python") if "losses" in b.text)
    imports, _, reading = example.partition("\ndata = ")
    code = imports.partition("\nimport tflm_zo")[0] + "\ndata = " + reading
    log = Log.read(folder / f"{kind}.zolog")
    data = (folder / f"{kind}.zolog").read_bytes()
    monkeypatch.chdir(tmp_path)
    # The last measurement has 28 bytes, the last record at least 12.
    for size, wanted in ((len(data), log.losses), (len(data) - 28 - 1, log.losses[:-1])):
        Path("run.zolog").write_bytes(data[:size])
        names: dict[str, Any] = {}
        exec(compile(code, "file-formats.md", "exec"), names)
        assert names["losses"] == list(wanted)


def test_bytes_of_statistics() -> None:
    model = load_model(MODELS["lenet5"]())
    statistics = channel_statistics_of(model, random_samples(0, 8, (28, 28, 1))[0])
    kept = with_statistics(model, statistics)
    data = bytes(kept.find_metadata(STATISTICS_NAME).buffer.data)
    (table,) = tables("Statistics of channels")
    found = values(data, 0, table)
    assert found == {"version": 1, "number of layers": len(statistics.layers), "samples that were measured": 8}
    at = 8
    for layer in statistics.layers:
        channels = read(data, at, 0, "u32")
        assert channels == len(layer.mean)
        means = np.frombuffer(data, "<f2", channels, at + 4)
        np.testing.assert_allclose(means, layer.mean, rtol=1e-2, atol=1e-2)
        at += 4 + 4 * 2 * channels
    channels = read(data, at, 0, "u32")
    assert len(data) == at + 4 + (2 * (16 * channels + 2) if channels else 0)
