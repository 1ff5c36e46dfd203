"""Pages besides their examples: links, options, files, tables that agree, and generated parts."""

import re
import runpy
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer

from helpers.firmware_folders import firmware, zo_model
from helpers.html_pages import contrast
from helpers.pages import DOCS, README, REPOSITORY, blocks, pages, run_command
from tflm_zo.cli.app import app
from tflm_zo.cli.option_names import OF_INJECT
from tflm_zo.firmware import PLATFORMS, arena
from tflm_zo.training.setting_texts import every_name

PAGES = pages()
ALGORITHMS = DOCS / "algorithms.md"
ARCHITECTURE = REPOSITORY / "ARCHITECTURE.md"
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def relative(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def test_the_first_page_is_short() -> None:
    assert len(README.read_bytes()) <= 8192


def test_architecture_is_an_overview() -> None:
    """Allows three pictures; the design of a folder is in the folder."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert len(text.encode()) <= 16384 and text.count("![") == 3


def test_the_pages_of_algorithms_are_what_the_generator_makes() -> None:
    made = runpy.run_path(str(DOCS / "generate_algorithms.py"))["pages"]()
    assert set((DOCS / "algorithms").iterdir()) == set(made) - {ALGORITHMS}
    for page, text in made.items():
        same = page.read_text(encoding="utf-8") == text
        assert same, f"{relative(page)}: something has changed: run python docs/generate_algorithms.py"


def test_the_page_of_operators_is_what_the_generator_makes() -> None:
    made = runpy.run_path(str(DOCS / "generate_operators.py"))["page"]()
    same = (DOCS / "operators.md").read_text(encoding="utf-8") == made
    assert same, "a table has changed: run python docs/generate_operators.py"


def test_pictures_are_what_the_script_draws() -> None:
    script = runpy.run_path(str(DOCS / "draw_pictures.py"))
    assert {path.stem for path in (DOCS / "pictures").iterdir()} == set(script["PICTURES"])
    for name, draw in script["PICTURES"].items():
        same = (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == draw().svg()
        assert same, "figures or the script have changed: run python docs/draw_pictures.py"


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_pictures_can_be_read(scheme: int) -> None:
    """Texts have a contrast of 4.5 to all possible backgrounds, lines one of 3 to the paper (WCAG AA)."""
    colours = runpy.run_path(str(DOCS / "draw_pictures.py"))["COLOURS"]
    own = {name: both[scheme] for name, both in colours.items()}
    for name in ("ink", "soft"):
        for ground in ("paper", "plain", "zo", "kept"):
            assert contrast(own[name], own[ground]) >= 4.5, (name, ground)
    for name in ("line", "zo-line", "kept-line"):
        assert contrast(own[name], own["paper"]) >= 3, name


def rows(text: str) -> list[list[str]]:
    lines = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines if not line.startswith("---")]


@pytest.mark.parametrize(("heading", "page"), [("Accuracy", "results"), ("Cost", "costs")])
def test_the_first_page_has_rows_of_the_other_pages(heading: str, page: str) -> None:
    section = README.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    whole, taken = rows((DOCS / f"{page}.md").read_text(encoding="utf-8")), rows(section)
    assert len(taken) > 3
    for row in taken:
        assert any(in_order(row, other) for other in whole if other[0] == row[0]), row


def in_order(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(cell in rest for cell in part)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_options_exist(page: Path) -> None:
    known = {name for command in COMMANDS.values() for p in command.params for name in (*p.opts, *p.secondary_opts)}
    text = page.read_text(encoding="utf-8")
    # The rest behind " -- " is another program's.
    lines = re.findall(r"^tflm-zo (?:(?! -- ).)*", text.replace("\\\n", " "), re.MULTILINE)
    spans = re.findall(r"`((?:(?:tflm-zo )?(?:" + "|".join(COMMANDS) + r") )?--[^`]+)`", text)
    named = {name for words in (*lines, *spans) for name in re.findall(r"(?<!\S)--[a-z][\w-]*", words)}
    named -= {"--tasks"}  # of benchmarks/learning/compare.py
    assert named <= known, named - known
    settings = {name.replace("_", "-") for name in (*every_name(), *OF_INJECT)}
    given = set(re.findall(r"--set\s+([a-z][\w.-]*)=", text))
    assert given <= settings, given - settings


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, name = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), link
        if name:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
            assert name in {anchor(heading) for heading in headings}, link


def test_every_page_is_in_an_index() -> None:
    """Checks docs/index.md, and the indexes in it."""
    indices = [page for page in PAGES if page.name == "index.md" or page in (ALGORITHMS, ARCHITECTURE)]
    linked = {
        (page.parent / link).resolve()
        for page in indices
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    }
    assert set(PAGES) - linked == {DOCS / "index.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if DOCS in page.parents], ids=relative)
def test_a_page_ends_with_a_way_on(page: Path) -> None:
    text = re.sub(r"^```\{toctree\}.*?^```\n", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    last = text.rstrip().rpartition("\n\n")[2]
    links = re.findall(r"\]\(([^)#]+)", last)
    assert (last.startswith("Next: ") or page == DOCS / "index.md") and links
    assert all((page.parent / link).resolve() != page for link in links)


def test_files_between_backticks_exist() -> None:
    path = re.compile(r"`((?:benchmarks|converters|docs|examples|ops|tests|tflm_zo)/[\w./-]+)`")
    sources = {source.name for source in (REPOSITORY / "ops").rglob("*") if source.is_file()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if page.parent.name != "platforms":  # those name files of the generated folder, see below
            missing = [name for name in path.findall(text) if not (REPOSITORY / name).exists()]
            assert missing == [], relative(page)
        assert set(re.findall(r"`(zo_\w+\.(?:h|c|cc))`", text)) <= sources, relative(page)
        if page.name == "README.md" and page.parts[len(REPOSITORY.parts)] in ("converters", "ops", "tflm_zo"):
            own = {source.name for source in page.parent.rglob("*") if source.is_file()}
            assert set(re.findall(r"`(\w+\.py)`", text)) <= own, relative(page)


# --- docs/platforms: each page agrees with the generated folder
# ----------------------------------------------


def test_every_platform_has_a_page() -> None:
    assert {page.stem for page in (DOCS / "platforms").iterdir()} == set(PLATFORMS)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_page_says_what_the_generated_readme_says(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = DOCS / "platforms" / f"{platform}.md"
    monkeypatch.chdir(tmp_path)
    zo_model("node").save("lenet5.zo.tflite")
    first, *others = blocks(page)
    # Its bound: measuring takes a second.
    with mock.patch.object(arena, "recorded", return_value=None):
        run_command(*first.commands)
    folder = Path("lenet5_firmware")
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"--platform {platform}" in first.text and first.text.strip() in readme
    said = {line.strip() for line in readme.splitlines()}
    assert others
    for block in others:
        for line in block.text.splitlines():
            assert line.strip() in said, line
    rows = re.findall(r"^\| (`[^|]*`) \|", page.read_text(), re.M)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(named) > 8
    for name in named:
        assert (folder / name).exists(), name


@pytest.mark.parametrize(
    ("platform", "file", "option"),
    [
        ("cmake", "CMakeLists.txt", "option(TFLM_STRIP_ERROR_STRINGS"),
        ("cmake", "CMakeLists.txt", "cmake_minimum_required(VERSION 3.18)"),
        ("make", "small_zo.mk", "TFLM_STRIP_ERROR_STRINGS ?= 1"),
        ("make", "small_zo.mk", "SMALL_ZO_BUILD_DIR ?= build/small_zo"),
        ("make", "small_zo.mk", "SMALL_ZO_OPTIMIZE ?= -O2"),
        ("arduino", "library.properties", "depends=Arduino_TensorFlowLite"),
        ("arduino", "examples/small/small.ino", "Serial.begin(115200)"),
        ("zephyr", "samples/small/prj.conf", "CONFIG_MAIN_STACK_SIZE=8192"),
        ("esp-idf", "examples/small/sdkconfig.defaults", "CONFIG_ESP_MAIN_TASK_STACK_SIZE=8192"),
        ("esp-idf", "examples/small/sdkconfig.defaults", "CONFIG_ESP_TASK_WDT_INIT=n"),
        ("esp-idf", "idf_component.yml", 'version: ">=1.3.3"'),
        ("esp-idf", "idf_component.yml", 'version: ">=5.1"'),
    ],
)
def test_options_that_pages_name_are_generated(platform: str, file: str, option: str) -> None:
    assert option in firmware(platform).files[file]
