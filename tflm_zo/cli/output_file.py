"""Output files of a command: written atomically, without unrequested replacement, all different."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import typer

from ..io.files import check_output, claim_name, write_output

__all__ = ["check_output", "check_outputs", "claim_outputs", "write_files", "write_output"]


def claim_outputs(context: typer.Context, paths: Iterable[Path | None]) -> None:
    """Reserves the output files of a command until its end; refuses one that another command is writing."""
    for path in paths:
        if path is not None:
            context.with_resource(claim_name(path))


def check_outputs(reads: Mapping[str, Path | None], writes: Mapping[str, Path | None], *, force: bool) -> None:
    """Refuses outputs that are inputs or other outputs and, without `force`, those that exist."""
    taken = {os.path.realpath(path): name for name, path in reads.items() if path is not None}
    for name, path in writes.items():
        if path is None:
            continue
        other = taken.setdefault(os.path.realpath(path), name)
        if other != name:
            raise ValueError(f"{name} and {other} are the same file, {path}; choose another name")
    for path in writes.values():
        check_output(path, force=force)


def write_files(folder: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Writes text files into a folder, which may be new; none of them if one exists and `force` is not set."""
    folder.mkdir(exist_ok=True)
    for name in files:
        check_output(folder / name, force=force)
    for name, text in files.items():
        write_output(folder / name, text.encode(), force=force)
