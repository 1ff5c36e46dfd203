"""Files that appear whole or not at all."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tflm_zo.io.files import FileInUseError, NewFile, check_output, claim_name, lock_file, write_output

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks of POSIX")


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_no_name_before_it_is_whole(tmp_path: Path) -> None:
    new = NewFile(tmp_path / "f")
    new.file.write(b"half")
    assert "f" not in names(tmp_path) and len(names(tmp_path)) == 1
    new.publish(replace=False)
    assert names(tmp_path) == ["f"] and (tmp_path / "f").read_bytes() == b"half"
    new.file.write(b" and whole")
    new.discard()
    assert (tmp_path / "f").read_bytes() == b"half and whole"


@pytest.mark.parametrize("exists", [False, True])
def test_discarded(exists: bool, tmp_path: Path) -> None:
    if exists:
        (tmp_path / "f").write_bytes(b"old")
    new = NewFile(tmp_path / "f")
    new.file.write(b"new")
    if exists:
        with pytest.raises(FileExistsError):
            new.publish(replace=False)
    new.discard()
    assert names(tmp_path) == ["f"] * exists
    assert not exists or (tmp_path / "f").read_bytes() == b"old"


def test_replaces(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    assert write_output(tmp_path / "f", b"new", force=True) == tmp_path / "f"
    assert names(tmp_path) == ["f"] and (tmp_path / "f").read_bytes() == b"new"
    with pytest.raises(FileExistsError, match="f exists. Choose another name, or use `force=True`"):
        write_output(tmp_path / "f", b"newer", force=False)
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("folder", IsADirectoryError, "folder is a folder; name a file"),
        ("absent/f", NotADirectoryError, "absent/f: the folder .*absent does not exist"),
        ("file", FileExistsError, "file exists. Choose another name, or use `force=True`"),
    ],
)
def test_what_cannot_be_written_is_said_before(path: str, error: type[OSError], said: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    check_output(None, force=False)
    check_output(tmp_path / "new", force=False)
    check_output(tmp_path / "file", force=True)
    for use in (check_output, lambda path, force: write_output(path, b"new", force=force)):
        with pytest.raises(error, match=said):
            use(tmp_path / path, force=False)
    assert names(tmp_path) == ["file", "folder"] and (tmp_path / "file").read_bytes() == b"old"


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "hidden")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as refused:
        write_output(tmp_path / "f", b"1", force=False)
    assert refused.value.filename == str(tmp_path / "f") and names(tmp_path) == []


def test_a_file_has_the_usual_permissions(tmp_path: Path) -> None:
    write_output(tmp_path / "f", b"1", force=False)
    (tmp_path / "usual").write_bytes(b"1")
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "usual").stat().st_mode


KILLED = """
import os, signal, sys
from pathlib import Path
from tflm_zo.io.files import NewFile
new = NewFile(Path(sys.argv[1]))
new.file.write(b"half")
if sys.argv[2] == "replacing":
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    new.publish(replace=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["writing", "replacing"])
def test_what_a_kill_leaves_goes_with_the_next_file(moment: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    child = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "f"), moment])
    assert child.returncode == -signal.SIGKILL
    left = [name for name in names(tmp_path) if name != "f"]
    assert len(left) == 1
    assert (tmp_path / "f").read_bytes() == b"old"
    (tmp_path / ".g.0123456789abcdef.part").write_bytes(b"of another file")
    live = NewFile(tmp_path / "f")  # of a run that goes on beside
    write_output(tmp_path / "f", b"new", force=True)
    assert not set(left) & set(names(tmp_path))
    live.publish(replace=True)
    live.discard()
    assert names(tmp_path) == [".g.0123456789abcdef.part", "f"]


def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    said = "another run is writing it; wait for its end or choose another name"
    first = NewFile(tmp_path / "f")
    first.publish(replace=False)
    with open(tmp_path / "f", "rb", buffering=0) as file, pytest.raises(FileInUseError, match=said):
        lock_file(file, tmp_path / "f")
    second = NewFile(tmp_path / "f")
    with pytest.raises(FileInUseError, match=said) as refused:
        second.publish(replace=True)
    assert refused.value.filename == str(tmp_path / "f")
    first.discard()
    second.publish(replace=True)
    second.discard()
    assert names(tmp_path) == ["f"]
    with open(tmp_path / "f", "rb", buffering=0) as file:
        lock_file(file, tmp_path / "f")


CLAIMED = """
import os, signal, sys
from tflm_zo.io.files import claim_name
with claim_name(sys.argv[1]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def test_a_name_that_is_claimed(tmp_path: Path) -> None:
    """Refuses another program, by any path; without a file beside, and no longer than the program lives."""
    (tmp_path / "link").symlink_to(tmp_path)
    command = [sys.executable, "-c", CLAIMED, str(tmp_path / "f")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"claimed\n"
        other = tmp_path / "link" / "f"
        with pytest.raises(FileInUseError, match="another run is writing it"), claim_name(other):
            pass
        with claim_name(tmp_path / "g"):
            pass
        assert names(tmp_path) == ["link"]
        child.kill()
        child.wait()
    for _ in range(2):
        with claim_name(tmp_path / "f"):
            pass
    assert names(tmp_path) == ["link"]
