"""``python -m fuzz.files``, in ``tests``: a campaign, or a single case of one. `--help` has the options."""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tflm_zo.converters import ConversionError, Model, export_model, load_model
from tflm_zo.converters.constants import METADATA_NAME, OP_PREFIX
from tflm_zo.converters.model.schema import DTYPES
from tflm_zo.converters.segments import extract_segment

from . import bare_runtime, bases, workers
from .cases import KINDS, Case
from .workers import Outcome

RUNTIMES = "runtime's fault"
OURS = ("internal error", "hang", "crash")
KEPT_OF_A_KIND = 3  # findings of one signature whose files are written


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.files", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the campaign; the same seed, the same cases")
    parser.add_argument("--count", type=int, default=2000, help="number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", type=int, metavar="N", help="try case N alone, in this process")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder for failing inputs")
    chosen = parser.parse_args()
    valid = bases.build()
    if chosen.only is not None:
        return one_case(valid, chosen.seed, chosen.only, chosen.findings)

    begin, counts, seen = time.monotonic(), Counter[tuple[str, str]](), Counter[str]()
    faults = 0
    for outcome in workers.campaign(valid, chosen.seed, chosen.count, chosen.jobs, chosen.first):
        result = outcome.result
        if result == "crash" and runtimes_fault(workers.case_of(valid, chosen.seed, outcome.number)):
            result = RUNTIMES
        counts[outcome.kind, result] += 1
        if result in OURS or result == RUNTIMES:
            faults += result in OURS
            mark = signature(outcome)
            seen[mark] += 1
            if seen[mark] <= KEPT_OF_A_KIND:
                write(valid, chosen.seed, outcome, result, chosen.findings)
            if seen[mark] == 1:
                print(f"{result}: case {outcome.number}, {mark}", flush=True)
    show(counts, seen, chosen, time.monotonic() - begin)
    return 1 if faults else 0


def one_case(valid: bases.Bases, seed: int, number: int, folder: Path) -> int:
    case = workers.case_of(valid, seed, number)
    print(f"case {seed}/{number}: {case.kind} of {case.base}", flush=True)
    place = (folder / f"{seed}-{number}").resolve()
    write_files(case, place)
    with tempfile.TemporaryDirectory() as work:
        back = os.getcwd()
        os.chdir(work)
        try:
            outcome = workers.one(valid, seed, number)
        finally:
            os.chdir(back)
    print(f"{outcome.result}; last: {outcome.used}\n{outcome.text}\nfiles: {place}")
    return 1 if outcome.result in OURS else 0


def signature(outcome: Outcome) -> str:
    lines = [line.strip() for line in outcome.text.strip().splitlines()]
    if outcome.result == "crash":
        return f"{lines[0] if lines else '?'} in {outcome.used}"
    places = [line.split(", line ") for line in lines if line.startswith("File ")]
    place = f"{places[-1][0].rsplit('/', 1)[-1]}:{places[-1][1]}" if places else ""
    what = lines[0].split(":")[0] if lines else ""
    return f"{what} at {place}" if place else what


def runtimes_fault(case: Case) -> bool:
    if "model.tflite" not in case.files:
        return False
    # A write past a kernel's tensor may be seen long after, or never: the C library looks, too.
    checked = os.environ | {"LD_PRELOAD": "libc_malloc_debug.so.0", "GLIBC_TUNABLES": "glibc.malloc.check=3"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        for data in plain_models(case.files["model.tflite"]):
            path.write_bytes(data)
            for name in ("builtin", "reference"):
                command = [sys.executable, bare_runtime.__file__, str(path), name]
                done = subprocess.run(command, capture_output=True, timeout=300, check=False, env=checked)
                if done.returncode < 0:
                    return True
    return False


def plain_models(data: bytes) -> list[bytes]:
    """Extracts a file's networks without our operators: of a ZO model the whole, and each segment by itself."""
    try:
        model = load_model(data)
        if not any(m.name == METADATA_NAME for m in model.metadata or ()):
            return [data]
        return [export_model(model).to_bytes(), *(plain_segment(model, k) for k in range(len(model.subgraphs)))]
    except ConversionError:
        return [data]


def plain_segment(model: Model, number: int) -> bytes:
    segment = extract_segment(model, number)
    graph = segment.subgraphs[0]
    segment.signatures = None
    graph.operators = [op for op in graph.operators if not op.code.name.startswith(OP_PREFIX)]
    for tensor in graph.all_tensors():
        if tensor.is_variable:
            tensor.is_variable = False
            tensor.set_data(np.ones(tensor.shape, DTYPES[tensor.type]))
    computed = {t for op in graph.operators for t in op.outputs}
    graph.inputs = [t for t in graph.inputs if not t.name.startswith("zo_")]
    graph.outputs = [t for t in graph.outputs if t in computed or t in graph.inputs]
    return segment.to_bytes()


def write_files(case: Case, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, data in case.files.items():
        (place / name).write_bytes(data)


def write(valid: bases.Bases, seed: int, outcome: Outcome, result: str, folder: Path) -> None:
    place = folder / f"{seed}-{outcome.number}"
    write_files(workers.case_of(valid, seed, outcome.number), place)
    command = f"python -m fuzz.files --seed {seed} --only {outcome.number}"
    (place / "fault.txt").write_text(
        f"{result}: {outcome.kind} of {outcome.base}\nlast call: {outcome.used}\n"
        f"again, in tests: {command}\n\n{outcome.text}"
    )


def show(counts: Counter[tuple[str, str]], seen: Counter[str], chosen: argparse.Namespace, seconds: float) -> None:
    for mark, times in seen.most_common():
        print(f"{times:6} x {mark}")

    def total(*results: str, kind: str | None = None) -> int:
        return sum(n for (k, r), n in counts.items() if r in results and kind in (None, k))

    for kind in KINDS:
        parts = ", ".join(f"{n:,} {r}" for (k, r), n in sorted(counts.items()) if k == kind)
        print(f"{kind}: {parts}")
    mutants = sum(counts.values())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = max(used.ru_utime + used.ru_stime, 1e-9)
    last = chosen.first + chosen.count - 1
    print(
        f"{mutants:,} mutants of {len(KINDS)} kinds, seed {chosen.seed}, cases {chosen.first}..{last}: "
        f"{total('accepted'):,} accepted, {total('refused'):,} refused, "
        f"{total(RUNTIMES):,} runtime's faults; ours: {total('crash'):,} crashes, "
        f"{total('hang'):,} hangs, {total('internal error'):,} internal errors "
        f"({seconds:.0f} s, {mutants / cpu:.0f} a second of one core)"
    )


if __name__ == "__main__":
    sys.exit(main())
