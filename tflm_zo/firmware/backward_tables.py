"""The backward program of an exact tail as constant tables."""

from __future__ import annotations

from collections.abc import Callable

from ..core import BackwardProgram, BackwardStep, Struct
from .source_text import array, numbers


def backward_tables(program: BackwardProgram, number: Callable[[int], int], block: str, zo: str) -> list[str]:
    """Returns the definitions of a program, the last of which is kBackward.

    Args:
        program: program of a run.
        number: function that returns the device's number of a trainable tensor.
        block: name of the run among others, "" for the only one; part of all names.
        zo: prefix of the op pack's names in this folder.
    """
    parts, rows = list[str](), list[str]()
    for i, step in enumerate(program.steps):
        constants, row = _step(step, f"{block}{i}", zo)
        parts += constants
        rows.append(f"    {{{row}}},")
    reads = [number(step.tensor) if step.tensor is not None else step.segment or 0 for step in program.steps]
    fields = [f"    {{{f.count}, {-1 if f.at is None else f.at}}}," for f in program.fields]
    count, of_fields = len(rows), len(fields)
    steps = "// Kind, from, to; low, high; blocks, pitch, offset, length; layer, pool, product; factors.\n"
    steps += f"const {zo}_backward_step kSteps{block}[] = {{\n" + "\n".join(rows) + "\n};\n"
    reading = f"const uint16_t kReads{block}[] = {{\n{numbers(reads)}\n}};\n"
    names = f"kSteps{block}, kReads{block}"
    if not rows:
        steps, reading, names = "", "", "nullptr, nullptr"
    return [
        *parts,
        steps,
        reading,
        f"const ErrorFieldInfo kFields{block}[] = {{\n" + "\n".join(fields) + "\n};\n",
        f"const BackwardInfo kBackward{block} = {{{names}, kFields{block}, {count}, {of_fields}, "
        f"{program.shared_errors}}};\n",
    ]


def _step(step: BackwardStep, name: str, zo: str) -> tuple[list[str], str]:
    """Returns a step's row, and the definitions to which it points."""
    constants, pointers = [], ["nullptr"] * 4
    if step.layer is not None:
        constants.append(f"const {zo}_node_layer kStepLayer{name} = {{{_values(step.layer.struct)}}};\n")
        pointers[0] = f"&kStepLayer{name}"
    if step.pool is not None:
        constants.append(f"const {zo}_pool kStepPool{name} = {{{_values(step.pool)}}};\n")
        pointers[1] = f"&kStepPool{name}"
    if step.product is not None:
        constants.append(f"const {zo}_error_product kStepProduct{name} = {{{_values(step.product)}}};\n")
        pointers[2] = f"&kStepProduct{name}"
    if step.mantissas is not None:
        constants.append(array(f"const int16_t kFactors{name}[{step.mantissas.size}]", step.mantissas))
        pointers[3] = f"kFactors{name}"
    row = [*step.own_numbers.values(), *pointers, step.channels, step.exponent]
    return constants, ", ".join(map(str, row))


def _values(struct: Struct) -> str:
    return ", ".join(map(str, struct.numbers().values()))
