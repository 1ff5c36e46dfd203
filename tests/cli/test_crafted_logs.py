"""Logs whose checksums are right and whose fields no run has: one line, and nothing is written."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from helpers.models import MODELS
from helpers.processes import run

OPTIONS = ("--steps", "6", "--runtime", "litert", "--batch-size", "8")
MOST = 2**32 - 1
# kind, offset of a field in the header, its value, the log's error
CRAFTED = {
    "momentum": (
        "weight",
        32 + 4 * 21,
        33 << 16 | 1,
        "was made with setting `momentum`",
    ),
    "steps": ("weight", 32 + 4, 0, "no seed log of this version, or its header is damaged"),
    "batch": ("weight", 32 + 4 * 3, MOST, "no seed log of this version, or its header is damaged"),
    "weight bytes": ("node", 132, MOST - 15 - 8, "no snapshot log of this version, or its header is damaged"),
    "interval": ("node", 128, 0, "no snapshot log of this version, or its header is damaged"),
    "queries": ("node", 160 + 8, 33, "no snapshot log of this version, or its header is damaged"),
    "tensor": ("node", 160, 1000, "the log is damaged: it is of trainable tensor 1000, the model has"),
    "tensors": ("node", 160 + 4, 9 << 16, "no snapshot log of this version, or its header is damaged"),
    "few weights": ("node", 132, 4, "the log is damaged: its snapshots are of 4 bytes of weights"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crafted")
    (folder / "p.tflite").write_bytes(MODELS["small_cnn"]())
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (16, 8, 8, 1)).astype(np.int8)
    np.savez(folder / "d.npz", x=x, y=np.arange(16) % 4)
    for kind in ("node", "weight"):
        done = run(
            "train", str(folder / "p.tflite"), str(folder / "d.npz"), "-o", str(folder / f"{kind}.tflite"),
            "--algorithm", kind, *OPTIONS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_a_snapshot_of_a_state_that_no_run_has(folder: Path, tmp_path: Path) -> None:
    """Takes a complete slot with an invalid running mean for damaged before any weight is set."""
    data = bytearray((folder / "node.zolog").read_bytes())
    header, tasks = struct.unpack_from("<H", data, 10)[0], struct.unpack_from("<H", data, 14)[0]
    weights = struct.unpack_from("<I", data, 132)[0]
    slot = 16 + 8 * tasks + weights + 4
    for at in range(header, header + 3 * slot, slot):
        struct.pack_into("<I", data, at + 16, 1)  # a mantissa without its highest bit
        struct.pack_into("<I", data, at + slot - 4, zlib.crc32(data[at : at + slot - 4]))
    log = tmp_path / "crafted.zolog"
    log.write_bytes(data)
    model = str(folder / "node.zo.tflite")
    replayed = run("replay", model, str(log), "-o", str(tmp_path / "replayed.tflite"))
    assert (replayed.returncode, len(replayed.stderr.splitlines())) == (0, 1), replayed.stderr
    assert "6 steps after its last snapshot (0) are not in the model" in replayed.stderr
    output = tmp_path / "out.tflite"
    resumed = run("train", model, str(folder / "d.npz"), "-o", str(output), "--log", str(log), *OPTIONS, "--resume")
    # From the data alone, with the bits of the run that was not interrupted.
    assert resumed.returncode == 0, resumed.stderr
    assert log.read_bytes() == (folder / "node.zolog").read_bytes()
    assert output.read_bytes() == (folder / "node.tflite").read_bytes()


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted(name: str, folder: Path, tmp_path: Path) -> None:
    kind, at, value, said = CRAFTED[name]
    data = bytearray((folder / f"{kind}.zolog").read_bytes())
    size = struct.unpack_from("<H", data, 10)[0]
    struct.pack_into("<I", data, at, value)
    struct.pack_into("<I", data, size - 4, zlib.crc32(data[: size - 4]))
    log = tmp_path / "crafted.zolog"
    log.write_bytes(data)
    model, output = str(folder / f"{kind}.zo.tflite"), str(tmp_path / "out.tflite")
    replayed = run("replay", model, str(log), "-o", output)
    assert replayed.returncode == 1, replayed.stderr
    assert said in replayed.stderr and len(replayed.stderr.splitlines()) == 1
    resumed = run("train", model, str(folder / "d.npz"), "-o", output, "--log", str(log), *OPTIONS, "--resume")
    assert resumed.returncode == 1, resumed.stderr
    assert "the log is of a run with other settings" in resumed.stderr or said in resumed.stderr
    assert "internal error" not in replayed.stderr + resumed.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["crafted.zolog"]
    assert log.read_bytes() == data
