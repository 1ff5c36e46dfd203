"""Atomic writing of files: a killed program leaves no partial file.

All files of the package (models, logs, reports, firmware) are written by this module.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import ExistsError

if sys.platform != "win32":
    import fcntl


class FileInUseError(OSError):
    """Another program is writing the file."""


def lock_file(file: io.FileIO, path: str | os.PathLike[str]) -> None:
    """Locks an open file until it is closed; see `lock`. FileInUseError: another process has locked the file."""
    if not lock(file.fileno()):
        raise _in_use(path)


def _in_use(path: str | os.PathLike[str]) -> FileInUseError:
    text = "another run is writing it; wait for its end or choose another name"
    return FileInUseError(errno.EAGAIN, text, os.fspath(path))


@contextlib.contextmanager
def claim_name(path: str | os.PathLike[str]) -> Iterator[None]:
    """Reserves the name of a file that is written later, so that no other program starts to write it; raises
    FileInUseError if another process has reserved it. It is a lock in the folder of temporary files, which ends with
    the program.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
    try:
        with FileLock(Path(tempfile.gettempdir()) / f"tflm_zo-{name}.lock", timeout=0, mode=0o666):
            yield
    except Timeout:
        raise _in_use(path) from None


def hidden_name(path: Path) -> Path:
    """Returns a temporary name in the folder of a file; see `remove_stale`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")


def remove_stale(path: Path) -> None:
    """Removes unlocked temporary files of a path, which a killed program has left."""
    with contextlib.suppress(OSError):
        for left in path.parent.iterdir():
            if not re.fullmatch(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.part", left.name):
                continue
            descriptor = os.open(left, os.O_RDONLY)
            try:
                if lock(descriptor):
                    remove = shutil.rmtree if left.is_dir() else os.unlink
                    remove(left)
            finally:
                os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Locks a descriptor's file until it is closed, if the system can. False: another process has locked it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
    return True


class NewFile:
    """A file that is written under a temporary name and then published. It removes temporary files of the same name
    that a killed program left. `file` is open for reading and writing, and locked (see `lock_file`), also after
    `publish`.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._is_hidden = path, True
        remove_stale(path)
        self._hidden = hidden_name(path)
        self.file = io.FileIO(os.open(self._hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), "r+")
        lock(self.file.fileno())

    def publish(self, *, replace: bool) -> None:
        """Syncs the file to the disk and renames it to its path. FileExistsError: the file exists, and `replace` is not
        set. FileInUseError: another run is writing the existing file. OSError: the file cannot be renamed; call
        `discard`.
        """
        os.fsync(self.file.fileno())
        with contextlib.ExitStack() as stack:
            if self._path.exists():
                if not replace:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(self._path))
                lock_file(stack.enter_context(io.FileIO(self._path, "r")), self._path)
            os.replace(self._hidden, self._path)
            self._is_hidden = False

    def discard(self) -> None:
        """Closes the file, and removes it if it is not published."""
        self.file.close()
        if self._is_hidden:
            self._hidden.unlink(missing_ok=True)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[NewFile]:
    """Creates a `NewFile`; an error in the block discards it. Raises OSError if the file cannot be written; the error
    names its path, not the temporary one.
    """
    new = None
    try:
        new = NewFile(path)
        yield new
    except BaseException as error:
        if new is not None:
            new.discard()
        if isinstance(error, OSError) and not isinstance(error, FileExistsError | FileInUseError):
            raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error
        raise


def check_output(path: Path | None, *, force: bool) -> None:
    """Raises OSError if a file, None for none, cannot be written; call it before the work begins. FileExistsError: it
    exists, and ``force`` is not set. FileInUseError: a run is writing it. Others: its folder does not exist or cannot
    be written to, or ``path`` is a folder.
    """
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if path.exists():
        if not force:
            raise ExistsError(path)
        with contextlib.suppress(PermissionError), io.FileIO(path, "r") as file:
            lock_file(file, path)
    if not path.parent.is_dir():
        raise NotADirectoryError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path}: the folder {path.parent} cannot be written to")


def write_output(path: Path, data: bytes, *, force: bool) -> Path:
    """Writes a file atomically, and returns its path. Raises OSError if the file cannot be written, for a reason of
    `check_output` or, e.g., because the disk is full. An older file is unchanged.
    """
    check_output(path, force=force)
    try:
        with new_file(path) as new:
            with open(new.file.fileno(), "wb", closefd=False) as file:
                file.write(data)
            new.publish(replace=force)
    except FileExistsError:  # somebody else has made it in the meantime
        raise ExistsError(path) from None
    new.discard()
    return path
