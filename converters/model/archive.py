"""The zip archive that TFLite's metadata append to a model, with labels and vocabularies."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Final

_END: Final = b"PK\5\6"
# The end of central directory: its length and offset, bytes. A central directory entry: lengths of name, extra
# field and comment; offset of its file.
_TABLE: Final = struct.Struct("<12xII")
_LENGTHS: Final = struct.Struct("<28xHHH")
_ROW_BYTES: Final = 46
_PLACE: Final = struct.Struct("<I")
_PLACE_IN_ROW: Final = 42
_PLACE_IN_END: Final = 16


def archive_behind(data: bytes) -> bytes:
    """Returns the archive behind a model, whose places count from its own beginning, or nothing."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return b""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as files:
            begins = min((f.header_offset for f in files.infolist()), default=len(data))
        end = data.rfind(_END)
        size, at = _TABLE.unpack_from(data, end)
        if not 0 < begins <= end - size:
            return b""
        # Places may count from the model's beginning, or from the archive's.
        return _moved(data[begins:], end - size - at - begins)
    except (struct.error, zipfile.BadZipFile, ValueError, NotImplementedError):
        return b""  # damaged


def with_archive(model: bytes, archive: bytes) -> bytes:
    """Appends an archive to a model."""
    return model + _moved(archive, len(model)) if archive else model


def _moved(archive: bytes, by: int) -> bytes:
    """Returns an archive whose places are larger by a number of bytes."""
    moved, end = bytearray(archive), archive.rfind(_END)

    def move(at: int) -> None:
        _PLACE.pack_into(moved, at, (_PLACE.unpack_from(moved, at)[0] + by) % 2**32)

    row = end - _TABLE.unpack_from(archive, end)[0]
    while row < end:
        move(row + _PLACE_IN_ROW)
        row += _ROW_BYTES + sum(_LENGTHS.unpack_from(archive, row))
    move(end + _PLACE_IN_END)
    return bytes(moved)
