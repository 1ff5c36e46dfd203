# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Files that appear under their names whole or not at all, whatever ends the program that writes them.

Everything that the package writes goes through this module: models, logs, reports, firmware.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

__all__ = [
    "FileInUseError",
    "NewFile",
    "check_output",
    "claim_name",
    "hidden_name",
    "lock",
    "lock_file",
    "new_file",
    "remove_stale",
    "write_output",
]

# What a file system answers that has no nameless files, and a kernel that does not know them.
_NO_NAMELESS: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)


class FileInUseError(OSError):
    """Another program is writing the file."""


def lock_file(file: io.FileIO, path: str | os.PathLike[str]) -> None:
    """Locks an open file until it is closed (advisory, where the system has such locks).

    Raises:
        FileInUseError: another process has locked the file.
    """
    if not lock(file.fileno()):
        raise _in_use(path)


def _in_use(path: str | os.PathLike[str]) -> FileInUseError:
    what = "another run is writing it; wait for its end or choose another name"
    return FileInUseError(errno.EAGAIN, what, os.fspath(path))


@contextlib.contextmanager
def claim_name(path: str | os.PathLike[str]) -> Iterator[None]:
    """Claims the name of a file that is only written later, so that nobody else begins what would end there.

    The claim is a name in the kernel's memory (an abstract socket of Linux): it leaves no file, and goes with
    the program, however that ends. Elsewhere nothing is claimed, and who comes later is told when he writes.

    Raises:
        FileInUseError: another process has claimed the name.
    """
    with contextlib.ExitStack() as stack:
        if sys.platform == "linux":
            claim = stack.enter_context(socket.socket(socket.AF_UNIX))
            name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
            try:
                claim.bind(f"\0tflm_zo {name}")
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise _in_use(path) from None
        yield


def hidden_name(path: Path) -> Path:
    """A name beside a file or folder, for what is going to be it; see `remove_stale`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")


def remove_stale(path: Path) -> None:
    """Removes what has hidden names of a path and is locked by nobody: a killed program has left it."""
    prefix, end = f".{path.name}.", ".part"
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(prefix) and name.endswith(end) and len(name) == len(prefix + end) + 16:
                left = path.with_name(name)
                descriptor = os.open(left, os.O_RDONLY)
                try:
                    if lock(descriptor):
                        if left.is_dir():
                            shutil.rmtree(left)
                        else:
                            left.unlink()
                finally:
                    os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Locks what a descriptor stands for until it is closed, where the system has such locks.

    Returns:
        True if the file is locked now; False if another process has locked it.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
    return True


class NewFile:
    """A file that is written before it has its name.

    Where the system can do that (Linux), it has no name at all until then, and a killed program leaves
    nothing behind. Elsewhere, and for the moment in which it replaces another file, it has a hidden name
    beside, and the next file of its name removes what a killed program has left of that.

    Attributes:
        file: open for reading and writing, and locked, see `lock_file`; it stays open when it has its name.

    Raises:
        OSError: the folder cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        remove_stale(path)
        self._hidden = hidden_name(path)
        descriptor = self._nameless()
        if descriptor is None:
            descriptor = os.open(self._hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            self._is_nameless = False
        else:
            self._is_nameless = True
        self.file = io.FileIO(descriptor, "r+")
        lock(descriptor)

    def _nameless(self) -> int | None:
        if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
            return None
        try:
            return os.open(self._path.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
        except OSError as error:
            if error.errno in _NO_NAMELESS:
                return None
            raise

    def publish(self, *, replace: bool) -> None:
        """Brings the file to the disk and gives it its name.

        Args:
            replace: True if it may take that of another file.

        Raises:
            FileExistsError: a file has the name, and may not be replaced.
            FileInUseError: another run is writing the file that has the name.
            OSError: the file cannot get its name, e.g. because the disk is full; `discard` it.
        """
        os.fsync(self.file.fileno())
        try:
            self._link(self._path)
        except FileExistsError:
            if not replace:
                raise
            with io.FileIO(self._path, "r") as old:
                lock_file(old, self._path)
                if self._is_nameless:
                    self._link(self._hidden)
                    self._is_nameless = False
                os.replace(self._hidden, self._path)
        else:
            if not self._is_nameless:
                self._hidden.unlink(missing_ok=True)
        self._is_nameless = True

    def _link(self, name: Path) -> None:
        """Unlike a rename, a link fails where there is another file."""
        if self._is_nameless:
            descriptor = self.file.fileno()
            # Only with a folder's descriptor, which an absolute path has no use for, is the link followed.
            os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)
            return
        try:
            os.link(self._hidden, name)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.replace(self._hidden, name)

    def discard(self) -> None:
        """Closes the file, and removes it where it has no name of its own yet."""
        self.file.close()
        if not self._is_nameless:
            self._hidden.unlink(missing_ok=True)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[NewFile]:
    """A file that is being made; after an error nothing is left of it.

    Raises:
        OSError: the file cannot be written; the error names its path, not the hidden one.
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


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(f"{path} exists; choose another name or replace it with force=True")


def check_output(path: Path | None, *, force: bool) -> None:
    """Raises OSError where a file could not be written: called before the work begins.

    Args:
        path: path of the file, or None for no file.
        force: True if it may replace another file.

    Raises:
        FileExistsError: the file exists, and ``force`` is not set.
        FileInUseError: a run is writing the file.
        OSError: the file's folder does not exist or cannot be written to, or ``path`` is a folder.
    """
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if path.exists():
        if not force:
            raise _exists(path)
        with contextlib.suppress(PermissionError), io.FileIO(path, "r") as file:
            lock_file(file, path)
    if not path.parent.is_dir():
        raise NotADirectoryError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path}: the folder {path.parent} cannot be written to")


def write_output(path: Path, data: bytes, *, force: bool) -> Path:
    """Writes a file, whole or not at all, and returns its path.

    Raises:
        OSError: the file cannot be written, for a reason of `check_output` or because, e.g., the disk is
            full. An older file is then as it was.
    """
    check_output(path, force=force)
    try:
        with new_file(path) as new:
            with open(new.file.fileno(), "wb", closefd=False) as file:
                file.write(data)
            new.publish(replace=force)
    except FileExistsError:  # somebody else has made it in the meantime
        raise _exists(path) from None
    new.discard()
    return path
