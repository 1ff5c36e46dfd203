"""Generated folders are written completely or not at all, and the user's files stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.firmware_folders import firmware
from tflm_zo.firmware import PLATFORMS, Firmware
from tflm_zo.firmware.folder import CHECKSUMS, checksums, write_folder

pytestmark = pytest.mark.usefixtures("nothing_is_measured")


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def encoded(made: Firmware) -> dict[str, bytes]:
    return {path: text.encode() for path, text in made.files.items()}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_checksums_are_those_of_the_files(platform: str, tmp_path: Path) -> None:
    made = firmware(platform)
    assert made.write(tmp_path / "out") == []
    assert contents(tmp_path) == {f"out/{path}": text for path, text in encoded(made).items()}
    done = subprocess.run(["sha256sum", "-c", CHECKSUMS], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == len(made.files) - 1


def test_folders_that_are_not_replaced(tmp_path: Path) -> None:
    made = firmware("cmake")
    out = tmp_path / "out"
    (tmp_path / "file").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/small_zo_config.h").write_text("mine")
    made.write(out)
    before = contents(tmp_path)
    for folder, force, said in (
        ("out", False, "out exists. Choose another name, or use `force=True`"),
        ("file", True, "is a file; name a folder"),
        ("other", True, "has no .*, so it is no generated firmware"),
        ("no/out", False, "the folder .*no does not exist"),
    ):
        with pytest.raises(OSError, match=said):
            made.write(tmp_path / folder, force=force)
    assert contents(tmp_path) == before
    (tmp_path / "empty").mkdir()
    made.write(tmp_path / "empty")
    assert contents(tmp_path / "empty") == encoded(made)


def test_force_replaces_what_was_generated_and_keeps_what_was_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    firmware("cmake", "weight").write(out)
    (out / "small_zo_samples.cc").write_text("// my own samples\n")
    (out / "build").mkdir()
    (out / "build/firmware.elf").write_bytes(b"\x7fELF")
    (out / "notes.txt").write_text("mine\n")
    (out / "link").symlink_to("notes.txt")
    (out / "missing").symlink_to("nowhere")
    made = firmware("cmake", "node")
    kept = made.write(out, force=True)
    assert kept == ["build/firmware.elf", "link", "missing", "notes.txt", "small_zo_samples.cc"]
    found = contents(out)
    assert found.pop("small_zo_samples.cc") == b"// my own samples\n"
    assert found.pop("build/firmware.elf") == b"\x7fELF"
    assert found.pop("notes.txt") == found.pop("link") == b"mine\n"
    assert (out / "missing").is_symlink()
    # Files of the first run that the second has not are gone: an Arduino builder would compile them.
    expected = encoded(made)
    del expected["small_zo_samples.cc"]
    assert found == expected
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    # The same again: the kept file still differs from the generated one.
    assert made.write(out, force=True) == kept


def test_files_that_are_the_same_keep_their_times(tmp_path: Path) -> None:
    out = tmp_path / "out"
    firmware("cmake", "node").write(out)
    for path in out.rglob("*"):
        os.utime(path, (10**9, 10**9))
    made = firmware("cmake", "weight")
    made.write(out, force=True)
    assert contents(out) == encoded(made)
    old = encoded(firmware("cmake", "node"))
    same = {name for name, data in encoded(made).items() if old.get(name) == data}
    assert {f.relative_to(out).as_posix() for f in out.rglob("*") if f.stat().st_mtime == 10**9} >= same
    assert "small_zo_samples.cc" in same and "small_zo_config.h" not in same
    assert (out / "small_zo_config.h").stat().st_mtime > 10**9


def test_force_does_not_undo_changes_by_hand(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = firmware("cmake")
    made.write(out)
    config = out / "small_zo_config.h"
    config.write_text(config.read_text().replace("ZO_STEPS 3u", "ZO_STEPS 4u"))
    before = contents(tmp_path)
    with pytest.raises(FileExistsError, match=r"zo_config\.h was changed by hand. Move or delete it"):
        made.write(out, force=True)
    assert contents(tmp_path) == before
    config.unlink()
    assert made.write(out, force=True) == []
    assert contents(out) == encoded(made)


def test_force_to_another_platform(tmp_path: Path) -> None:
    out = tmp_path / "out"
    firmware("cmake").write(out)
    (out / "main.cc").write_text("// mine\n")
    made = firmware("arduino")
    assert made.write(out, force=True) == ["main.cc"]
    assert contents(out) == {**encoded(made), "main.cc": b"// mine\n"}


# Of a folder that is replaced, only different files are written.
@pytest.mark.parametrize(("force", "at"), [(False, 0), (False, 5), (False, 12), (True, 0), (True, 4)])
def test_nothing_is_left_half_written(force: bool, at: int, tmp_path: Path, monkeypatch: Any) -> None:
    out = tmp_path / "out"
    if force:
        firmware("cmake", "weight").write(out)
        (out / "notes.txt").write_text("mine\n")
    before = contents(tmp_path)
    written = 0
    original = Path.write_text

    def write_text(path: Path, *arguments: Any, **options: Any) -> int:
        nonlocal written
        written += 1
        if written == at + 1:
            raise OSError(28, "No space left on device", str(path))
        return original(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", write_text)
        with pytest.raises(OSError, match="No space left"):
            firmware("cmake").write(out, force=force)
    assert written == at + 1
    assert contents(tmp_path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == (["out"] if force else [])


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(tmp_path: Path, monkeypatch: Any) -> None:
    out = tmp_path / "out"
    firmware("cmake", "weight").write(out)
    before = contents(tmp_path)

    original = os.replace

    def replace(source: Any, target: Any) -> None:
        if str(source).endswith(".part"):
            raise OSError(13, "Permission denied", str(target))
        original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(OSError, match="Permission denied"):
            firmware("cmake").write(out, force=True)
    assert contents(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_link_to_a_folder_stays_one(tmp_path: Path) -> None:
    firmware("cmake", "weight").write(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    made = firmware("cmake")
    made.write(tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink() and contents(tmp_path / "real") == encoded(made)


KILLED = """
import os, signal, sys
from tflm_zo.firmware.folder import CHECKSUMS, checksums, write_folder
real, left = os.replace, int(sys.argv[1])

def replace(a, b):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    real(a, b)

os.replace = replace
files = {"zo.h": "new", "main.cc": "new"}
write_folder("out", files | {CHECKSUMS: checksums(files)}, ["main.cc"], force=True)
"""


@pytest.mark.parametrize("moment", [0, 1])
def test_what_a_kill_leaves_goes_with_the_next_folder(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills before the old folder has lost its name, and before the new one has it."""
    monkeypatch.chdir(tmp_path)
    sources = {"zo.h": "old", "main.cc": "old"}
    files = sources | {CHECKSUMS: checksums(sources)}
    write_folder("out", files, ["main.cc"], force=False)
    Path("out/main.cc").write_text("mine")
    child = subprocess.run([sys.executable, "-c", KILLED, str(moment)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert Path("out").exists() == (moment == 0) and len(list(tmp_path.iterdir())) == 2
    if moment:
        with pytest.raises(FileExistsError, match="exists"):
            write_folder("out", files, ["main.cc"], force=False)
    assert write_folder("out", files, ["main.cc"], force=True) == ["main.cc"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert [Path("out", name).read_text() for name in sources] == ["old", "mine"]
