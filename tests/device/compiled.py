"""Generated folders compiled to libraries for this machine, against headers that stand in for TFLM's."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tflm_zo.firmware import Firmware
from tflm_zo.firmware.op_pack import of_model

HERE = Path(__file__).parent
#: Go into the folder, the resolver in the place of the generated one.
OWN = ("bridge.cc", "self_test.cc", "stores.cc", "stores.h", "zo_op_resolver.h")
#: Memory that stores are tested with, in a folder whose op pack is one header.
MEMORY = HERE.parent / "ops" / "core"
#: A checkout of littlefs, whose users have a store for it: for tests of that store.
LITTLEFS = os.environ.get("LITTLEFS_DIR")
GLUE = HERE.parents[1] / "examples" / "littlefs"
GXX = os.environ.get("CXX") or shutil.which("g++")
GCC = os.environ.get("CC") or shutil.which("gcc")
#: A compiler of C and one of C++.
Tools = tuple[str | None, str | None]
_WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
_FLAGS = ["-fPIC", *_WARNINGS, f"-I{HERE / 'tflm'}", "-I."]
_SANITIZED = ("-O0", "-fsanitize=undefined", "-fno-sanitize-recover=undefined")


def _made(files: dict[str, str], suffix: str, make: Callable[[Path], None]) -> Path:
    """Makes files in a folder by `make`, as `made` there; once for equal files."""
    cached = HERE.parents[1] / "build" / "device-tests"
    known = hashlib.sha256(repr((sorted(files.items()), suffix)).encode() + Path(__file__).read_bytes())
    made = cached / f"{known.hexdigest()[:32]}{suffix}"
    if not made.is_file():
        cached.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached) as work:
            for name, text in files.items():
                path = Path(work, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            make(Path(work))
            os.replace(Path(work, "made"), made)
    return made


def _run(folder: Path, *command: object) -> None:
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def _compile(folder: Path, tools: Tools, *flags: str) -> None:
    """Compiles all sources to objects."""
    sources = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.suffix in (".c", ".cc"))
    for compiler, suffix in (([tools[0], "-std=c99"], ".c"), ([tools[1], "-std=c++17"], ".cc")):
        own = [s for s in sources if s.suffix == suffix]
        if own:
            _run(folder, *compiler, *_FLAGS, *flags, "-c", *own)


def _make_library(folder: Path, *flags: str, tools: Tools = (GCC, GXX)) -> None:
    _compile(folder, tools, *flags)
    _run(folder, "ar", "rcs", "made", *folder.glob("*.o"))


def _littlefs(folder: str) -> Path:
    """Builds the library of a checkout, whose warnings are not ours."""
    sources = {name: Path(folder, name).read_text() for name in ("lfs.c", "lfs.h", "lfs_util.c", "lfs_util.h")}
    return _made(sources, ".lfs.a", lambda made: _make_library(made, *_SANITIZED, "-w", "-DLFS_NO_DEBUG"))


def build(firmware: Firmware, flags: Sequence[str] = _SANITIZED, tools: Tools = (GCC, GXX)) -> Path:
    """Compiles a generated folder, with the stand-in for TFLM, to a library that Python loads."""
    command = {"command.txt": str((tools, flags))}
    sources = {
        name: text
        for name, text in firmware.files.items()
        if name.endswith((".h", ".c", ".cc")) and not name.endswith("_zo_tflm.cc") and name != "main.cc"
    }
    pack = {
        name: text for name, text in sources.items() if name.endswith(("_zo_ops.h", "_zo_ops_internal.h", "_zo_ops.c"))
    }
    pack["tflm.cc"] = (HERE / "tflm" / "tflm.cc").read_text()
    op_pack = _made(pack | command, ".a", lambda folder: _make_library(folder, *flags, tools=tools))

    libraries, include, texts = [op_pack], [], {name: (HERE / name).read_text() for name in OWN}
    if LITTLEFS is not None:
        libraries.append(_littlefs(LITTLEFS))
        include = ["-DWITH_LITTLEFS=1", f"-isystem{Path(LITTLEFS).resolve()}"]
        texts |= {path.name: path.read_text() for path in GLUE.glob("*.[ch]")}

    def make(folder: Path) -> None:
        _compile(folder, tools, *flags, *include)
        # This package's library has the same symbols, and they are there for everybody, because TFLM looks
        # its operators up. The device's are to be its own.
        link = ["-shared", "-Wl,-Bsymbolic", *flags, *folder.glob("*.o"), *libraries]
        _run(folder, tools[1], *link, "-o", "made")

    # Written without a model's name, like the op pack.
    (config,) = (name for name in firmware.files if name.endswith("_zo_config.h"))
    for name in ("flash_part.h", "flash_part.c"):
        texts[name] = (MEMORY / name).read_text().replace("ops/core/log/zo_flash_store.h", "zo_ops.h")
    own = of_model(texts, config.removesuffix("_zo_config.h"))
    for macro, trainer in (
        ("TRAINS_NODES", "class NodeTrainer"),
        ("HAS_SNAPSHOTS", "trainer_import_log_from("),
    ):
        has = any(trainer in text for text in sources.values())
        own["bridge.cc"] = f"#define {macro} {int(has)}\n{own['bridge.cc']}"
    headers = {name: text for name, text in pack.items() if name.endswith(".h")}
    rest = {name: text for name, text in sources.items() if name not in pack}
    others = {**command, "libraries.txt": str([path.name for path in libraries])}
    return _made({**rest, **headers, **own, **others}, ".so", make)
