"""Costs of training on a Cortex-M: instructions of the ops, bytes of their code.

Instructions are counted on an emulated core, exactly; they are not cycles. Sizes are those of the C core's
sections that a linker keeps if unused ones go, by their object file.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from cortex_m.emulator import (
    CORE_SOURCES,
    COUNTING_SOURCE,
    HERE,
    Core,
    build,
    compile_objects,
    counting_flags,
    link,
    run,
)

#: Sources linked for their size: the calls of the graph's ops, and those of a training loop.
OP_PACK = HERE / "reached_ops.c"
CONTROL_UNIT = HERE / "reached_control.c"

_KEPT = re.compile(r"^ \.(?:text|rodata)\S*\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+(\S+)$", re.MULTILINE)
_MEMBER = re.compile(r"\((\w+)\.o\)$")


@dataclass(frozen=True)
class Sizes:
    """Bytes of code and constants: of each of the C core's object files, and of the compiler's library."""

    core: dict[str, int]
    helpers: int

    @property
    def total(self) -> int:
        return sum(self.core.values())


def _counted(core: Core, program: str, folder: Path, level: str) -> str:
    sources = [HERE / program, COUNTING_SOURCE, *CORE_SOURCES]
    built = build(core, sources, folder / Path(program).stem, [level], counting_flags(core))
    return run(core, built, counting=True)


def weight_op_costs(core: Core, folder: Path, level: str = "-O2") -> dict[str, float]:
    """Counts instructions per weight (and step, of a replay) on 48,000 weights, by case (weight_op_costs.c)."""
    lines = [line.split() for line in _counted(core, "weight_op_costs.c", folder, level).splitlines()]
    return {name: int(count) / 1000 for name, count in lines}


def node_costs(core: Core, folder: Path, level: str = "-O2") -> dict[str, int]:
    """Counts instructions of a call, by case (node_cases.c): updates of layers by node perturbation, the loss."""
    lines = [line.split() for line in _counted(core, "node_cases.c", folder, level).splitlines()]
    return {name: int(count) for name, _, count in lines}


def sizes(core: Core, caller: Path, folder: Path, flags: tuple[str, ...] = ("-Os",)) -> Sizes:
    """Measures the parts of the C core that a program keeps for the calls of `caller`."""
    compiled = folder / "core" / "".join((*core.flags, *flags))
    objects = sorted(compiled.glob("*.o")) or compile_objects(core, CORE_SOURCES, compiled, flags)
    objects = [*compile_objects(core, [caller], folder / caller.stem, flags), *objects]
    found = folder / f"{caller.stem}.map"
    link(core, objects, folder / f"{caller.stem}.elf", [f"-Wl,-Map={found}"])
    kept: dict[str, int] = {}
    helpers = 0
    _, _, memory = found.read_text().partition("Linker script and memory map")
    core_names = {source.name: source.stem for source in CORE_SOURCES}
    for size, origin in _KEPT.findall(memory):
        name = Path(origin).name.removesuffix(".o")
        if name in core_names:
            kept[core_names[name]] = kept.get(core_names[name], 0) + int(size, 16)
        elif "libgcc" in origin and _MEMBER.search(origin):
            helpers += int(size, 16)
    return Sizes(dict(sorted(kept.items())), helpers)
