"""Flash of a Cortex-M that training takes beyond inference, byte by byte.

Two programs are linked as a user links a generated folder, its sources at -Os, with TFLM's library as its own
Makefile has built it: one infers with the original model (inferring.cc), one trains it (training.cc). The
linker's sections of both are counted: code, constants, initial values. The programs' own code is left out,
and so is the model: its graph and weights, multipliers of channels, samples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tflm_checkout.firmware_build import HERE, Library, build_firmware, replace_main
from tflm_zo import Model, inject
from tflm_zo.firmware import generate_firmware
from tflm_zo.firmware.resolver import resolver_source
from tflm_zo.training import Settings, inject_settings

NAME = "model"
SAMPLES = 100
#: Parts of a program, in the order of tables.
PARTS = ("core", "trainer", "operators", "tables", "TFLM", "C library")

_SECTION = re.compile(
    r"^ \.(text|rodata|data|ARM\.ex\w+|init_array)(\S*)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (.+)$", re.MULTILINE
)
# The resolver, which either program has, and how many operators its class is made for.
_RESOLVER = re.compile(r"get_resolver|MicroMutableOpResolver")
_OPERATORS = re.compile(r"ILj\d+E")
# Of a model's own array, by its name: not code.
_MODEL_DATA = re.compile(r"g_model\w*_model_data|kPlainModel|kMultiplier|kMask")


@dataclass(frozen=True)
class Flash:
    """Bytes of flash that a program takes, by part and section, whose name is that of a function or a constant."""

    symbols: Mapping[tuple[str, str], int]

    @property
    def total(self) -> int:
        return sum(self.symbols.values())

    def minus(self, other: Flash) -> Flash:
        names = sorted({*self.symbols, *other.symbols})
        differences = {n: self.symbols.get(n, 0) - other.symbols.get(n, 0) for n in names}
        return Flash({n: d for n, d in differences.items() if d})

    def of(self, part: str) -> int:
        return sum(size for (own, _), size in self.symbols.items() if own == part)


def _part(origin: str) -> str | None:
    found = re.search(r"([\w.+-]+)\.(?:o|obj)\)?$", origin)
    member = found[1] if found else origin
    if "main.cc" in member or "startup" in member or "samples" in member:
        return None
    if "microlite" in origin:
        return "TFLM"
    for part, name in (
        ("core", "zo_ops.c"),
        ("trainer", "zo_trainer.cc"),
        ("operators", "zo_tflm.cc"),
        ("tables", "zo_model.cc"),
    ):
        if member.endswith(name):
            return part
    return "C library"


def flash_of(map_file: str) -> Flash:
    _, _, memory = map_file.partition("Linker script and memory map")
    memory = re.sub(r"^( \.\S+)\n\s+", r"\1 ", memory, flags=re.MULTILINE)
    symbols: dict[tuple[str, str], int] = {}
    for kind, name, size, origin in _SECTION.findall(memory):
        part = _part(origin)
        if _RESOLVER.search(name):
            part, name = "TFLM", _OPERATORS.sub("", name)
        if part is None or _MODEL_DATA.search(name):
            continue
        if part == "trainer" and kind == "rodata":
            part = "tables"  # those of the model, which its compiler is to know
        at = part, f"{kind}{name}"
        symbols[at] = symbols.get(at, 0) + int(size, 16)
    return Flash({name: size for name, size in symbols.items() if size})


def build(library: Library, folder: Path, main: str, *options: str) -> tuple[Path, Flash]:
    replace_main(folder, (HERE / main).read_text())
    found = folder / "program.map"
    program = build_firmware(
        library, folder, folder / "build", "-DCMAKE_BUILD_TYPE=MinSizeRel", *options, map_file=found
    )
    return program, flash_of(found.read_text())


def inferring(model: Model, library: Library, folder: Path) -> Flash:
    made = generate_firmware(inject(model), steps=1, samples=1, name=NAME)
    made.write(folder)
    (resolver,) = folder.glob("*_op_resolver.h")
    resolver.write_text(resolver_source([model], NAME, ""))
    data = ", ".join(map(str, model.to_bytes()))
    (folder / "plain_model_data.h").write_text(
        f"alignas(16) extern const unsigned char kPlainModel[];\n"
        f"alignas(16) const unsigned char kPlainModel[] = {{{data}}};\n"
    )
    return build(library, folder, "inferring.cc")[1]


def zo_model(model: Model, settings: Settings) -> Model:
    return inject(model, inject_settings(settings, batch=1))


def training(model: Model, settings: Settings, library: Library, folder: Path, *options: str) -> Flash:
    made = generate_firmware(zo_model(model, settings), settings, steps=1000, samples=SAMPLES, name=NAME)
    made.write(folder)
    return build(library, folder, "training.cc", *options)[1]
