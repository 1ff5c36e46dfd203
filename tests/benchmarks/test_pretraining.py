"""The comparison of pre-trainings resumes from its results and reports paired gains."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def lines(accuracies: dict[str, list[list[float]]]) -> str:
    """Writes one line per adaptation: by recipe, [seed][run]."""
    rows: list[dict[str, Any]] = [
        {"task": "digits", "recipe": recipe, "seed": seed, "run": run, "old": 97.0, "before": 20.0}
        | {"after": after, "old_after": 50.0, "lsb_of_rms": 0.02}
        for recipe, seeds in accuracies.items()
        for seed, runs in enumerate(seeds)
        for run, after in enumerate(runs)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def report(path: Path, *arguments: str) -> Any:
    command = [sys.executable, "benchmarks/pretraining/compare.py", "--tasks", "digits", "--json"]
    command += ["--results", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["digits"]


@pytest.mark.slow
def test_report_of_complete_results(tmp_path: Path) -> None:
    """Measures nothing again; the third seed and third run are not requested."""
    pytest.importorskip("tensorflow")
    path = tmp_path / "results.jsonl"
    path.write_text(
        lines({"baseline": [[80, 82, 0], [70, 74, 0], [0, 0]], "ReLU6": [[85, 87, 0], [73, 73, 0], [0, 0]]})
    )
    before = path.read_bytes()
    found = report(path, "--only", "ReLU6", "--seeds", "2", "--runs", "2")
    assert path.read_bytes() == before
    assert list(found) == ["baseline", "ReLU6"]
    assert found["baseline"]["after"] == pytest.approx(76.5)
    assert found["baseline"]["after_spread"] == pytest.approx(math.sqrt((3.5**2 + 5.5**2 + 6.5**2 + 2.5**2) / 3))
    # Differences by seed: 86 - 81 and 73 - 72.
    assert found["ReLU6"]["gain"] == pytest.approx(3)
    assert found["ReLU6"]["gain_error"] == pytest.approx(2)


@pytest.mark.slow
def test_going_on_after_an_interruption(tmp_path: Path) -> None:
    """Measures an incomplete line again, and keeps the complete one."""
    pytest.importorskip("sklearn")
    pytest.importorskip("tensorflow")
    path = tmp_path / "results.jsonl"
    whole = lines({"baseline": [[12.5]]})
    path.write_text(whole + lines({"clipped at 2.5 RMS": [[12.5]]})[:40])
    found = report(path, "--only", "clipped at 2.5 RMS", "--seeds", "1", "--runs", "1")
    assert path.read_text().startswith(whole)
    assert found["baseline"]["after"] == 12.5
    assert 50 < found["clipped at 2.5 RMS"]["after"] < 100
