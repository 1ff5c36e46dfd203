# SPDX-License-Identifier: Apache-2.0
"""Files that appear under their names whole or not at all, whatever ends the program that writes them."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import sys
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

__all__ = ["FileInUseError", "NewFile", "lock_file"]

# What a file system answers that has no nameless files, and a kernel that does not know them.
_NO_NAMELESS: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)


class FileInUseError(OSError):
    """Another program is writing the file."""


def lock_file(file: io.FileIO, path: str | os.PathLike[str]) -> None:
    """Locks an open file until it is closed (advisory, where the system has such locks).

    Raises:
        FileInUseError: somebody else has locked it.
    """
    if not _lock(file.fileno()):
        raise FileInUseError(
            errno.EAGAIN,
            "another run is writing it; wait for its end or choose another name",
            os.fspath(path),
        )


def _lock(descriptor: int) -> bool:
    """Whether this program has the lock now."""
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

    Args:
        path: where it is going to be.

    Attributes:
        file: open for reading and writing, and locked, see `lock_file`; it stays open when it has its name.

    Raises:
        OSError: the folder cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._remove_stale()
        self._hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        descriptor = self._nameless()
        if descriptor is None:
            descriptor = os.open(self._hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            self._is_nameless = False
        else:
            self._is_nameless = True
        self.file = io.FileIO(descriptor, "r+")
        _lock(descriptor)

    def _nameless(self) -> int | None:
        if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
            return None
        try:
            return os.open(self._path.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
        except OSError as error:
            if error.errno in _NO_NAMELESS:
                return None
            raise

    def _remove_stale(self) -> None:
        """Removes hidden files of this name that nobody is writing."""
        prefix, end = f".{self._path.name}.", ".part"
        with contextlib.suppress(OSError):
            for name in os.listdir(self._path.parent):
                if name.startswith(prefix) and name.endswith(end) and len(name) == len(prefix + end) + 16:
                    left = self._path.with_name(name)
                    with open(left, "rb") as file:
                        if _lock(file.fileno()):
                            left.unlink()

    def publish(self, *, replace: bool) -> None:
        """Brings the file to the disk and gives it its name.

        Args:
            replace: whether it may take that of another file.

        Raises:
            FileExistsError: there is one, and it may not.
            FileInUseError: there is one that another run is writing.
            OSError: e.g. the disk is full. The file has no name then; `discard` it.
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
