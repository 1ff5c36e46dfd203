"""Arguments of the commands that talk to a device, and the link that they make."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .failures import note
from .options import argument, option, optional

if TYPE_CHECKING:
    from ..link import Hello, Link

Port = Annotated[str, argument("PORT", "A serial port or a URL of pyserial's.")]
Baud = Annotated[int, option("Bit rate of a serial port.", "Line", min=1)]
Timeout = Annotated[float, option("Largest time without an answer, seconds.", "Line", min=0.1)]
DeviceModel = Annotated[Path | None, optional("MODEL", "ZO model of the device.", "Data", "--model")]


@contextlib.contextmanager
def connect(port: str, baud: int, timeout: float, model: Path | None) -> Iterator[tuple[Link, Hello]]:
    """Connects to a device and checks that it has the given model, if any."""
    from ..link import Link, open_port
    from ..link.deploy import check_model
    from ..logs import fingerprint

    mark = None if model is None else fingerprint(model.read_bytes())
    with Link(lambda: open_port(port, baud), timeout) as link:
        hello = link.hello()
        if mark is not None:
            check_model(hello, mark, str(model))
        yield link, hello


def of_line(link: Link) -> dict[str, int]:
    """Returns the numbers of repeated requests and damaged frames, for `--json`."""
    return {"requests_repeated": link.repeated, "frames_damaged": link.damaged}


def say_line(link: Link) -> None:
    """Prints the numbers of repeated requests and damaged frames, unless both are 0."""
    if link.repeated:
        note(f"the line was bad: {link.repeated:,} requests were repeated")
