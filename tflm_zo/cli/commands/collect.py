"""``tflm-zo collect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ...converters import load_model, read_metadata
from ...io.files import claim_name
from ...logs.layout import LiveLog
from ..device_options import Baud, DeviceModel, Port, Timeout, connect, of_line, say_line
from ..options import Force, Json, option, optional
from ..output_file import check_output
from ..results import counting_bar, show

EXAMPLE = "tflm-zo collect /dev/ttyUSB0 -o run.zolog --follow"


def collect(
    port: Port,
    output: Annotated[
        Path,
        optional(
            "FILE",
            "Output file of the log. If the file holds part of the same run, collection resumes.",
            "Output",
            "-o",
            "--output",
        ),
    ],
    follow: Annotated[bool, option("Show losses as they arrive, until the end of the run.", "Run", "--follow")] = False,
    model: DeviceModel = None,
    baud: Baud = 115200,
    timeout: Timeout = 10.0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Collect the log of a device's run, during the run or afterwards, over a line that may be bad.

    The file is always a complete log, equal to the device's, or absent. FILE.part holds the bytes so far, so
    the same command resumes an interrupted collection. The device's program serves the line with
    zo_link_serve. Other ports: socket://localhost:4000, rfc2217://host:2217.

    Without --model a mean squared error is shown in the device's unit: 1 is the error of 8 output levels.
    """
    from ...link import collect as bring

    check_output(output, force=True)
    bar = counting_bar()
    task = bar.add_task("collecting", total=None)
    last: list[float] = []
    unit = 1.0

    def show_log(log: LiveLog) -> None:
        bar.update(task, total=log.steps)
        bar.start()

    def show_steps(losses: list[float]) -> None:
        last[:] = [losses[-1] * unit]
        bar.update(task, advance=len(losses), description=f"loss {last[0]:.5g}")

    with claim_name(output), connect(port, baud, timeout, model) as (link, _):
        if model is not None and (of_model := read_metadata(load_model(model)).loss) is not None:
            unit = of_model.unit  # real value of a mean squared error of 1
        try:
            log = bring(link, output, follow=follow, force=force, on_log=show_log, on_steps=show_steps)
        finally:
            bar.stop()
        result: dict[str, Any] = {
            "output": str(output),
            "log": "snapshot" if log.is_snapshot_log else "seed",
            "steps": log.step,
            "steps_of_run": log.steps,
            "loss": last[0] if last else None,
            "fingerprint": log.fingerprint.hex(),
            **of_line(link),
        }
    if not as_json:
        say_line(link)
    loss = f", the last loss is {last[0]:.5g}" if last else ""
    show(result, as_json=as_json, render=f"{output}: {log.step:,} of the run's {log.steps:,} steps{loss}")
