# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all and replace nothing unasked."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import typer

from ..converters.model.new_file import claim_name, lock_file
from ..converters.model.writer import save_bytes

__all__ = ["check_different", "check_output", "claim_outputs", "write_output"]


def check_output(path: Path | None, *, force: bool) -> None:
    """Raises OSError where a file could not be written: called before the work begins.

    Raises:
        FileExistsError: there is one already, and ``force`` is not set.
        FileInUseError: a run is writing it.
        OSError: its folder does not exist or cannot be written to, or ``path`` is a folder.
    """
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists; choose another name or replace it with --force")
    if path.exists():
        with contextlib.suppress(PermissionError), io.FileIO(path, "r") as file:
            lock_file(file, path)
    if not path.parent.is_dir():
        raise NotADirectoryError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path}: the folder {path.parent} cannot be written to")


def claim_outputs(context: typer.Context, paths: Iterable[Path | None]) -> None:
    """Claims what a command is going to write, until it ends: a long one is not to find out at its end that
    another one had the same name in mind.

    Raises:
        FileInUseError: a run that goes on is going to write one of them.
    """
    for path in paths:
        if path is not None:
            context.with_resource(claim_name(path))


def check_different(reads: Mapping[str, Path | None], writes: Mapping[str, Path | None]) -> None:
    """Raises ValueError where a file would be written that is read, or by two options.

    Args:
        reads: files by what names them on the command line.
        writes: likewise.
    """
    taken = {os.path.realpath(path): name for name, path in reads.items() if path is not None}
    for name, path in writes.items():
        if path is None:
            continue
        other = taken.setdefault(os.path.realpath(path), name)
        if other != name:
            raise ValueError(f"{name} and {other} are the same file, {path}; choose another name")


def write_output(path: Path, data: bytes, *, force: bool) -> None:
    """Writes a file, whole or not at all.

    Raises:
        OSError: as for ``check_output``, or e.g. the disk is full; what was there is as it was.
    """
    check_output(path, force=force)
    try:
        save_bytes(data, path, force)
    except OSError as error:
        # Name the file that was asked for, not the temporary one.
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
