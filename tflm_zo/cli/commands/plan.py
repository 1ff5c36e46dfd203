"""``tflm-zo plan``."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from rich import box
from rich.console import Console

from ...io.table import table, table_console
from ...planner import Cost, Plan, Target, boards, cores
from ...planner import plan as make_plan
from ...training import SettingsError
from ..failures import waiting_for
from ..options import BoardName, Force, ForwardOnly, Json, ModelFile, OutputReport, Ram, choice, optional, parse_bytes
from ..output_file import check_outputs
from ..results import show, write_report

EXAMPLE = "tflm-zo plan model.tflite --board nano-33-ble"

_DEVICE = "Device"
_WIDTH = 80  # of the tables
#: Flash of the Arm compiler's C library in a program that prints, on all kinds of cores.
LIBRARY_FLASH = "flash: without the C library; newlib's printf takes 28 to 38 KB, newlib-nano's 8"


def _list_boards(wanted: bool) -> None:
    if wanted:
        rows = [[b.name, b.label, b.core, b.clock, b.ram, b.flash] for b in boards().values()]
        columns = ["name", "board", "core", "MHz", "RAM (KiB)", "flash (KiB)"]
        table_console().print(table("Boards", columns, rows))
        raise typer.Exit()


def plan(
    model: ModelFile,
    board: BoardName = None,
    core: Annotated[
        str | None,
        optional(
            None,
            "Core of the device (default: the board's, else cortex-m4).",
            _DEVICE,
            "--core",
            **choice(cores(), listed=False),
        ),
    ] = None,
    clock: Annotated[
        str | None, optional("HERTZ", "Clock of the core, like 80M, for estimates of time.", _DEVICE)
    ] = None,
    ram: Ram = None,
    flash: Annotated[str | None, optional("BYTES", "Flash of the device, like 1M.", _DEVICE)] = None,
    power: Annotated[
        str | None,
        optional("WATTS", "Power of the computing device, like 30m, for estimates of energy; needs a clock.", _DEVICE),
    ] = None,
    cycles: Annotated[
        float | None,
        optional("NUMBER", "Average cycles per instruction (default: an assumption for the core).", _DEVICE),
    ] = None,
    sequence: Annotated[
        int | None, optional("N", "Steps of a sample, of a streaming model (default: 1).", _DEVICE)
    ] = None,
    forward_only: ForwardOnly = False,
    list_boards: Annotated[
        bool,
        typer.Option(
            "--boards", callback=_list_boards, is_eager=True, help="List the boards and exit.", rich_help_panel=_DEVICE
        ),
    ] = False,
    output: OutputReport = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Estimate the memory and time that training needs on a device, and list the ways to train that fit.

    It estimates RAM, flash, bytes of log, instructions, and, with a clock, time for each way to train the model,
    without data or a device: all layers or the last ones, 16- or 8-bit updates, minibatches of 32 to 4. The first
    way is likely to learn most. Instructions were measured on emulated cores; cycles per instruction are an
    assumption.
    """
    check_outputs({"MODEL": model}, {"-o": output}, force=force)
    with waiting_for("planning"):
        made = make_plan(
            model,
            board=board,
            core=core,
            clock=None if clock is None else _number("--clock", clock, "Hz"),
            ram=parse_bytes("--ram", ram),
            flash=parse_bytes("--flash", flash),
            power=None if power is None else _number("--power", power, "W"),
            cycles=cycles,
            forward_only=forward_only,
            sequence=sequence,
        )
    result = made.as_dict()
    write_report(output, result, force=force)
    show(result, as_json=as_json, render=lambda console: _render(console, made))


def _number(option: str, text: str, unit: str) -> float:
    """Returns the number of a text like 80M, 80MHz or 30mW."""
    found = re.fullmatch(rf"(\d+(?:\.\d+)?(?:e\d+)?) ?([kKmMGu]?)(?:{unit})?", text.strip(), re.ASCII)
    if found is None or not float(found[1]):
        raise SettingsError(option, "be a number like 80M or 30m", text)
    factors = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "m": 1e-3, "u": 1e-6}
    return float(found[1]) * factors[found[2]]


def _render(console: Console, made: Plan) -> None:
    target = made.target
    told = [target.core.name if target.board is None else f"{target.board.label} ({target.board.chip})"]
    told += [] if target.clock is None else [f"{target.clock / 1e6:g} MHz"]
    told += [] if target.ram is None else [f"{target.ram:,} bytes of RAM"]
    told += [] if target.flash is None else [f"{target.flash:,} bytes of flash"]
    console.print(f"{made.model} on {', '.join(told)}")
    seconds = "" if target.clock is None else f", {_time(made.inference * target.cycles / target.clock)}"
    console.print(f"an inference takes {_count(made.inference)} instructions{seconds}")
    if made.sequence is not None:
        length = f"a sequence of {made.sequence} inferences" if made.sequence > 1 else "one inference"
        console.print(f"a sample is {length}; --sequence gives another length")
    if target.core.note:
        console.print(target.core.note)
    shown = made.shown()
    title = "Ways to train, the one first that is likely to learn most, and their bytes"
    _print_narrow(console, title, [_bytes_of(target, cost) for cost in shown])
    _print_narrow(console, "What a step and a run take", [_costs_of(target, cost) for cost in shown])
    for sentence in _legend(target):
        console.print(sentence)
    if not made.costs[0].sizes.ram.arena.measured:
        console.print("RAM is an upper bound: pip install 'tflm_zo[tflm]' measures arenas")
    _verdict(console, made)


def _print_narrow(console: Console, title: str, rows: list[dict[str, object]]) -> None:
    """Prints rows by column as a table without lines between its columns, for a terminal of 80 columns."""
    result = table(title, list(rows[0]), [list(row.values()) for row in rows])
    result.box, result.padding = box.SIMPLE_HEAD, 0
    result.show_edge = result.pad_edge = False
    for column in result.columns[1:]:
        column.justify, column.no_wrap = "right", True
    console.print(result, width=min(console.width, _WIDTH))


def _bytes_of(target: Target, cost: Cost) -> dict[str, object]:
    way, fits = cost.way, "yes" if cost.fits(target) else "no"
    ways = {"trains by": way.name, "layers": len(way.trained.layers), "bits": way.update_bits}
    run = {"batch": cost.sizes.run.minibatch, "arena": cost.arena, "work": cost.sizes.ram.workspace}
    return {**ways, **run, "RAM": cost.ram, "flash": cost.flash, "log": cost.sizes.log, "fits": fits}


def _costs_of(target: Target, cost: Cost) -> dict[str, object]:
    found: dict[str, object] = {"trains by": cost.way.name, "instructions": _count(cost.instructions)}
    if target.clock is not None:
        budgets = {"step": None, "10⁴": 10_000, "10⁵": 100_000}
        found |= {name: _time(cost.seconds(target, budget)) for name, budget in budgets.items()}
        joules = cost.joules(target, 100_000)
        found |= {} if joules is None else {"energy": _energy(joules)}
    back = cost.backpropagation
    return {**found, "backprop\nint8": _size(back.int8), "\nfloat32": _size(back.float32)}


def _legend(target: Target) -> list[str]:
    """Returns the legend of the tables."""
    times = "" if target.clock is None else "; 10⁴, 10⁵: time of so many forwards"
    energy = "" if target.clock is None or target.power is None else "; energy: of 10⁵"
    return [
        "batch: minibatch; work: workspace; RAM: stack and C library, too; log: of a step",
        LIBRARY_FLASH,
        f"instructions: of a step{times}{energy}",
        "backprop: bytes that backpropagating them takes (ElasticZO, equations 4 and 15)",
    ]


def _verdict(console: Console, made: Plan) -> None:
    best, target = made.best, made.target
    if best is None:
        least = made.smallest
        console.print(
            f"does not fit: the least, {least.way.name} with {least.way.update_bits}-bit updates and "
            f"minibatches of {least.sizes.run.minibatch}, takes {least.ram:,} bytes of RAM and "
            f"{least.flash:,} of flash"
        )
        if fitting := made.fitting_boards():
            console.print(f"it would fit on {', '.join(board.name for board in fitting[:5])}")
        return
    joules = best.joules(target, 100_000)
    energy = "" if joules is None else f", {_energy(joules)} for 10⁵ forwards"
    train, firmware = made.commands()
    limit = "" if target.ram is None and target.flash is None else "fits: "
    console.print(
        f"{limit}{best.way.name}, {best.way.update_bits}-bit updates, minibatches of {best.sizes.run.minibatch}{energy}"
    )
    console.print(best.way.trained.sentence)
    console.print(f"  {train}")
    console.print(f"  {firmware}")


def _in_units(value: float, **units: float) -> str:
    """Returns a value in the first unit that it reaches, or in the last one."""
    unit, size = next((found for found in units.items() if value >= found[1]), list(units.items())[-1])
    return f"{value / size:.3g} {unit}"


def _size(count: int) -> str:
    return _in_units(count, M=1e6, k=1e3)


def _count(number: float) -> str:
    return f"{number:.0f}" if number < 1e3 else _in_units(number, G=1e9, M=1e6, k=1e3)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else _in_units(seconds, d=86400.0, h=3600.0, min=60.0, s=1.0, ms=1e-3, µs=1e-6)


def _energy(joules: float) -> str:
    return _in_units(joules, kJ=1e3, J=1.0)
