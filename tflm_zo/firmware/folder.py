"""Writes a generated folder, and replaces an older one without the loss of the user's changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from ..io.errors import ExistsError
from ..io.files import claim_name, hidden_name, lock, remove_stale

#: The file that marks a generated folder and detects changes in it: ``sha256sum -c`` reads it.
CHECKSUMS: Final = "zo_files.sha256"


def checksums(files: Mapping[str, str]) -> str:
    """Returns the text of the file `CHECKSUMS`."""
    return "".join(f"{_sum(files[path].encode())}  {path}\n" for path in sorted(files))


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_folder(target: Path, *, force: bool) -> None:
    """Raises OSError if a folder cannot be written: it has files and ``force`` is not set, it is no generated firmware,
    or its parent folder does not exist. Call it before the work begins.
    """
    real = target.resolve()
    if not real.parent.is_dir():
        raise NotADirectoryError(f"{target}: the folder {target.parent} does not exist")
    if not real.exists() or (real.is_dir() and not any(real.iterdir())):
        return
    if not real.is_dir():
        raise FileExistsError(f"{target} is a file; name a folder")
    if not force:
        raise ExistsError(target)
    if not (real / CHECKSUMS).is_file():
        raise FileExistsError(f"{target} has no {CHECKSUMS}, so it is no generated firmware. Choose another name")


def _kept(target: Path, real: Path, files: Mapping[str, str], example: Collection[str]) -> list[str]:
    """Returns paths of the files that a user has added to a folder, or changed in its example. Raises FileExistsError
    if a file that has to be replaced was changed.
    """
    lines = (real / CHECKSUMS).read_text(encoding="utf-8", errors="replace")
    written = {name: known for known, name in re.findall(r"(?m)^([0-9a-f]{64})  (.+)$", lines)}
    kept = []
    for folder, folders, names in os.walk(real):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*names, *links]:
            path = Path(folder, name)
            relative = path.relative_to(real).as_posix()
            if relative == CHECKSUMS:
                continue
            own = path.is_file() and not path.is_symlink()
            data = path.read_bytes() if own and (relative in written or relative in files) else b""
            if own and _sum(data) == written.get(relative):
                continue
            if relative not in files or relative in example:
                kept.append(relative)
            elif not own or data != files[relative].encode():
                raise FileExistsError(f"{target / relative} was changed by hand. Move or delete it")
    return sorted(kept)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == text.encode()


def write_folder(
    folder: str | os.PathLike[str], files: Mapping[str, str], example: Collection[str], *, force: bool
) -> list[str]:
    """Writes texts by path to a folder, atomically; see `Firmware.write`. The user may change the files of `example`.
    Unchanged files keep their times.
    """
    target = Path(folder)
    real = target.resolve()
    with claim_name(real):
        # A killed program may have left the new folder half written, or the old one without its name.
        old = real.with_name(f".{real.name}.zo_old")
        if (old / CHECKSUMS).is_file() and not real.exists() and real.parent.is_dir():
            os.replace(old, real)
        remove_stale(real)
        check_folder(target, force=force)
        kept = _kept(target, real, files, example) if (real / CHECKSUMS).is_file() else []
        part = hidden_name(real)
        part.mkdir()
        with _locked(part):
            try:
                for name in kept:
                    _link(real / name, part / name)
                for name, text in files.items():
                    if name in kept:
                        continue
                    path = part / name
                    if _holds(real / name, text):  # its time stays, so a build does not compile it again
                        _link(real / name, path)
                        continue
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8", newline="\n")
                _replace(part, real, old)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return kept


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a folder while it is written, so that `remove_stale` leaves it alone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _replace(part: Path, real: Path, old: Path) -> None:
    """Gives a folder its name; an older folder of that name is called `old` for a moment."""
    if real.exists():
        if (old / CHECKSUMS).is_file():
            shutil.rmtree(old, ignore_errors=True)
        os.replace(real, old)
    try:
        os.replace(part, real)
    except OSError:
        if old.exists():
            os.replace(old, real)
        raise
    shutil.rmtree(old, ignore_errors=True)
