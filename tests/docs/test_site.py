"""The documentation's site: built without a warning, readable in a browser, with every public name."""

import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

import tflm_zo
from helpers.html_pages import Browser, browser
from helpers.pages import DOCS, GUIDE, REPOSITORY, blocks
from tflm_zo.cli.app import app

#: `make docs` builds the site, too, and reports its errors.
pytestmark = pytest.mark.slow
inventory = pytest.importorskip("sphinx.util.inventory", reason="NO SPHINX: THE REFERENCE WAS NOT LOOKED AT")

PAGES = sorted((DOCS / "reference" / "c").glob("*.md"))
HEADERS = [name for page in PAGES for name in re.findall(r"```\{c-header\} (\S+)", page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--conf-dir", DOCS, "--quiet", "--fail-on-warning", "--keep-going"]
    done = subprocess.run([*command, REPOSITORY, folder], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def documented(site: Path) -> dict[str, set[str]]:
    read = inventory.InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {kind: set(names) for kind, names in read.data.items()}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200], ids=["phone", "desktop"])
@pytest.mark.parametrize(
    "page",
    [
        "docs/index",
        "docs/tutorial",
        "docs/by-hand",
        "docs/costs",
        "docs/how-to/will-it-fit",
        "docs/zo-models",
        "docs/algorithms/node",
        "docs/reference/commands",
        "docs/reference/c/trainer",
        "docs/reference/python/tflm_zo",
        "README",
    ],
)
def test_a_page(page: str, width: int, dark: bool, site: Path, chromium: Browser) -> None:
    """Fits the window, asks for nothing of the network, and shows its pictures, which have words, too."""
    chromium.open(site / f"{page}.html", width=width, dark=dark)
    assert chromium.ask("return document.documentElement.scrollWidth <= window.innerWidth")
    assert [asked for asked in chromium.requests if not asked.startswith(("file:", "data:"))] == []
    assert chromium.console == []
    for picture in chromium.ask("return [...document.images].map(i => [i.src, i.naturalWidth, i.alt, i.width])"):
        source, natural, words, across = picture
        assert natural > 0 and len(words) > 20 and across >= 300, source


def test_the_first_page_leads_to_the_index(site: Path, chromium: Browser) -> None:
    chromium.open(site / "index.html")
    assert chromium.ask("return document.title").startswith("tflm_zo")
    assert chromium.ask("return location.pathname").endswith("/docs/index.html")


def packages() -> list[ModuleType]:
    names = [module.name for module in pkgutil.walk_packages(tflm_zo.__path__, "tflm_zo.") if module.ispkg]
    loaded = [tflm_zo, *map(importlib.import_module, names)]
    return [module for module in loaded if hasattr(module, "__all__")]


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_python(package: ModuleType, documented: dict[str, set[str]]) -> None:
    """Checks each exported name, here or in another package that exports the same object by the same name."""
    names = {name for kind, found in documented.items() if kind.startswith("py:") for name in found}
    for name in package.__all__:
        value = getattr(package, name)
        if isinstance(value, ModuleType):
            assert value.__name__ in documented["py:module"], name
        else:
            homes = [p.__name__ for p in packages() if name in p.__all__ and getattr(p, name) is value]
            assert {f"{home}.{name}" for home in homes} & names, name


def test_algorithms(documented: dict[str, set[str]]) -> None:
    functions = {f"tflm_zo.training.algorithms.{f.__name__}" for f in tflm_zo.training.ALGORITHMS.values()}
    assert len(functions) > 5 and functions <= documented["py:function"]


def test_commands(documented: dict[str, set[str]]) -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {
        f"tflm-zo-{command}.{option}"
        for command, it in commands.items()
        for parameter in it.params
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False)
        for option in parameter.opts
    }
    assert len(options) > 50 and options <= documented["std:cmdoption"]


def functions(header: Path, folder: Path) -> set[str]:
    source, said = folder / "header.c", folder / "header.X"
    source.write_text(f'#include "{header}"\n')
    command = ["gcc", "-std=c99", f"-I{REPOSITORY}", "-fsyntax-only", "-aux-info", said, source]
    subprocess.run(command, check=True, capture_output=True)
    line = rf"^/\* {re.escape(str(header))}:.*?\*/ .*?(\w+) \("
    return set(re.findall(line, said.read_text(), re.MULTILINE))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="NO GCC: FUNCTIONS OF C WERE NOT COUNTED")
def test_c(documented: dict[str, set[str]], tmp_path: Path) -> None:
    core = [REPOSITORY / name for name in HEADERS if name.startswith("ops/core/")]
    found = {path: functions(path, tmp_path) for path in core}
    assert len(core) > 15 and sum(map(len, found.values())) > 60
    for path, names in found.items():
        assert names <= documented["c:function"], path.name


def test_what_the_guide_calls_of_c(documented: dict[str, set[str]]) -> None:
    """Checks types, functions and constants of the program on the device."""
    code = "\n".join(block.text for block in blocks(GUIDE, "cpp", "c"))
    used = {re.sub("^(node|NODE)_", "", name) for name in re.findall(r"\b(?:node_zo|NODE_ZO)_\w+\b", code)}
    used -= {"zo_trainer"}  # a header
    known = {name for kind, found in documented.items() if kind.startswith("c:") for name in found}
    sizes = {"ZO_SAMPLES", "ZO_ARENA_BYTES", "ZO_WORKSPACE_BYTES", "ZO_TRAINABLE_BYTES"}  # in the guide's table
    status = {name for name in used if name == "ZO_OK" or name.startswith("ZO_ERROR_")}
    assert len(used) > 20 and used - sizes - status <= known
    members = set(re.findall(r"\btrainer\.(\w+)\(", code))
    methods = {name.rpartition("::")[2] for name in documented["cpp:function"]}
    assert len(members) > 6 and members <= methods
