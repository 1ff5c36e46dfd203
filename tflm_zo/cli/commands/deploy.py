"""``tflm-zo deploy``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..device_options import Baud, DeviceModel, Port, Timeout, connect, of_line, say_line
from ..options import Json, argument, option
from ..results import counting_bar, show

EXAMPLE = "tflm-zo deploy /dev/ttyUSB0 trained.tflite --model trained.zo.tflite"


def deploy(
    port: Port,
    file: Annotated[
        Path | None, argument("[FILE]", "A log, a trained plain model, or weights that a device has exported.")
    ] = None,
    model: DeviceModel = None,
    revert: Annotated[bool, option("Restore the previous run of the device.", "Run", "--revert")] = False,
    baud: Baud = 115200,
    timeout: Timeout = 10.0,
    as_json: Json = False,
) -> None:
    """Send a run to a device, which activates it after the complete transfer and can revert to the earlier run.

    Weights start a new run. A log of weight perturbation is sent unchanged, a few bytes per step; the device replays it
    and resumes after its end. With --model, the replayed weights are sent instead. The device keeps its earlier run,
    log included, until the next deployment: --revert reactivates it, and a second --revert returns. The same command
    resumes an interrupted deployment.
    """
    from ...link import deploy as send
    from ...link import load_of
    from ...link import revert as go_back

    if revert == (file is not None):
        raise typer.BadParameter("give a FILE or --revert, one of both")
    with connect(port, baud, timeout, model) as (link, hello):
        if file is None:
            done = go_back(link, hello)
            what = "the run before"
        else:
            load = load_of(file, link, hello, model)
            with counting_bar() as bar:
                task = bar.add_task("sending", total=len(load.data))
                done = send(link, hello, load, lambda count: bar.update(task, completed=count))
            what = f"{len(load.data):,} bytes of {'a log' if load.kind.name == 'LOG' else 'weights'}"
        result: dict[str, Any] = {
            "place": done.place,
            "changed": done.changed,
            "bytes": 0 if file is None else len(load.data),
            "bytes_sent": done.sent,
            "kind": None if file is None else load.kind.name.lower(),
            **of_line(link),
        }
    if not as_json:
        say_line(link)
    before = "" if done.changed else "; it was active already, so nothing was sent"
    show(result, as_json=as_json, render=f"the device continues with {what}, in place {done.place}{before}")
