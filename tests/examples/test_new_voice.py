"""examples/new_voice: its parts share nothing, and forward passes teach it the new speaker."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from examples.programs import data, evaluated, program, run, table


def test_without_data_it_says_what_is_missing(tmp_path: Path) -> None:
    done = run("new_voice", "-o", tmp_path / "voice")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "TFLM_ZO_DATA is not set" in done.stderr and "fsdd.npz" in done.stderr
    assert not (tmp_path / "voice").exists()


@pytest.mark.slow
def test_no_utterance_is_in_two_parts() -> None:
    data("TFLM_ZO_DATA", "fsdd.npz")
    module = program("new_voice")
    parts = module.parts("theo")
    rows = Counter(x.tobytes() for found, _ in parts.values() for x in found)
    # Two recordings of the set are equal to another one each; more than that would be a part in a part.
    assert len(rows) >= sum(len(y) for _, y in parts.values()) - 2
    assert len(parts["adapt"][1]) + len(parts["held_out"][1]) == module.UTTERANCES
    assert len(parts["test"][1]) == 300 and len(parts["old"][1]) == 5 * 45 * 10
    with pytest.raises(SystemExit, match="no 'nobody'; there are george"):
        module.parts("nobody")


@pytest.mark.slow
def test_it_learns_the_new_voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("keras", reason="NO TensorFlow: THE EXAMPLE WAS NOT RUN")
    folder = data("TFLM_ZO_DATA", "fsdd.npz")
    done = run("new_voice", "-o", tmp_path / "voice", TFLM_ZO_DATA=str(folder))
    assert done.returncode == 0, done.stderr
    rows = table(done.stdout)
    before, after = rows["nothing"], rows["forward passes only"]
    assert after[0] > before[0] + 10
    assert rows["forward passes only, old voices, too"][1] > after[1]
    # The commands of its page accept its files.
    monkeypatch.chdir(tmp_path / "voice")
    assert evaluated("adapted.tflite") == pytest.approx(after[0], abs=0.06)
    with np.load("adapt.npz") as adapt:
        assert len(adapt["y"]) == 128
