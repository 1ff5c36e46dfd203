"""``tflm-zo gateway``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ..device_options import Baud
from ..options import Json, argument, option, optional
from ..results import show

if TYPE_CHECKING:
    from ...fleet.lines import Lines

EXAMPLE = (
    "tflm-zo gateway model.zo.tflite --mqtt mqtt://localhost/fleet --devices kitchen,hall "
    "--superlink localhost:9092 -- --insecure"
)


def gateway(
    model: Annotated[Path, argument("MODEL", "The ZO model that the devices' firmware was made from.")],
    supernode: Annotated[
        list[str] | None, argument("[-- OPTIONS]", "More options of flower-supernode, after --.")
    ] = None,
    port: Annotated[
        list[str] | None,
        optional("[NAME=]PORT", "Device at a serial port or a URL of pyserial; repeatable.", "Line", "--port"),
    ] = None,
    mqtt: Annotated[
        str | None, optional("URL", "MQTT broker: mqtt://[USER@]HOST[:PORT]/PREFIX, or mqtts://.", "Line", "--mqtt")
    ] = None,
    devices: Annotated[str | None, optional("A,B,…", "Names of the devices at the broker.", "Line")] = None,
    superlink: Annotated[
        str | None,
        optional("HOST:PORT", "Flower SuperLink of the fleet. Without it, the gateway only checks the devices.", "Run"),
    ] = None,
    log: Annotated[
        Path, option("File of the run's records, for devices that lack them. Keep it.", "Run", metavar="FILE")
    ] = Path("gateway.zolog"),
    deadline: Annotated[float, option("Time limit of the devices for a step, seconds.", "Run", min=0.1)] = 60.0,
    baud: Baud = 115200,
    as_json: Json = False,
) -> None:
    """Run one client of a Flower fleet for a group of devices.

    It checks each device, prints a line about it, and starts flower-supernode, whose app finds the devices by
    tflm_zo.fleet.flower.gateway_of. It waits for devices that do not answer, because they may be asleep.
    """
    from ...fleet.lines import Lines, kept_ports
    from ...logs import fingerprint

    program = _supernode() if superlink is not None else ""
    lines = Lines(_ports(port or ()), baud, mqtt or "", _names(devices, mqtt))
    if not lines.ports and not lines.devices:
        raise typer.BadParameter("no device: name them by --port, or by --mqtt and --devices")
    try:
        lines.open  # noqa: B018 - refuses a line without a device
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    mark = fingerprint(model.read_bytes())
    # A socket can be opened again and again; many boards are reset when their serial port is.
    serial = {name: one for name, one in lines.ports.items() if not one.startswith("socket://")}
    with kept_ports(Lines(serial, baud).open) as kept:
        lines = Lines({**lines.ports, **kept}, baud, lines.broker, lines.devices)
        found = _look(lines, mark, min(deadline, 5.0))
        result = {"model": str(model), "devices": found}
        show(result, as_json=as_json, render=lambda console: console.print(_table(found)))
        if superlink is None:
            return
        config = {
            "zo-model": str(model.resolve()),
            "zo-log": str(log.resolve()),
            "zo-deadline": str(deadline),
            "zo-lines": lines.write(),
        }
        text = " ".join(f"{key}='{value}'" for key, value in config.items())
        command = [program, "--superlink", superlink, "--node-config", text, *(supernode or ())]
        process = subprocess.Popen(command)
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code:
        raise typer.Exit(code)


def _supernode() -> str:
    beside = Path(sys.executable).parent
    found = shutil.which("flower-supernode", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise ValueError("flower-supernode is not installed: pip install 'tflm_zo[fleet]'")
    return found


def _ports(given: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Returns the ports by the names of their devices."""
    found: dict[str, str] = {}
    for one in given:
        name, is_named, port = one.partition("=")
        if not is_named:
            name, port = Path(one).name, one
        if not name or not port or name in found:
            raise typer.BadParameter(f"--port {one}: expected NAME=PORT, with a name that no other device has")
        found[name] = port
    return found


def _names(devices: str | None, mqtt: str | None) -> list[str]:
    if (devices is None) != (mqtt is None):
        raise typer.BadParameter("--mqtt and --devices: expected both or none")
    return [name.strip() for name in devices.split(",")] if devices else []


def _look(lines: Lines, mark: bytes, seconds: float) -> dict[str, dict[str, Any]]:
    """Requests the state of all devices."""
    from concurrent.futures import ThreadPoolExecutor

    from ...fleet.gateway import reason_of
    from ...link import Link, LinkError

    def look(connect: Any) -> dict[str, Any]:
        try:
            with Link(connect, seconds) as link:
                if link.hello().fingerprint != mark:
                    return {"problem": "another model"}
                state = link.fleet_state()
                return {"step": state.step, "weights": f"{state.weights:08x}"}
        except (LinkError, OSError) as error:
            return {"problem": reason_of(error)}

    opens = lines.open
    with ThreadPoolExecutor(len(opens)) as pool:
        return dict(zip(opens, pool.map(look, opens.values()), strict=True))


def _table(found: dict[str, dict[str, Any]]) -> Table:
    table = Table("device", "steps", "weights", "", box=None)
    for name, one in found.items():
        table.add_row(name, str(one.get("step", "")), one.get("weights", ""), one.get("problem", ""))
    return table
