"""Properties that no compiler checks: one version, workflows that call existing targets, include guards of
their own."""

import re
from typing import Any

import pytest

import tflm_zo
from helpers.pages import REPOSITORY

yaml = pytest.importorskip("yaml")


def text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def workflow(name: str) -> Any:
    return yaml.safe_load(text(f".github/workflows/{name}.yml"))


def steps(name: str) -> list[str]:
    """Returns the commands of a workflow's jobs."""
    jobs = workflow(name)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_one_version() -> None:
    found = {
        "pyproject.toml": re.search(r'^version = "(.*)"$', text("pyproject.toml"), re.MULTILINE)[1],
        "CMakeLists.txt": re.search(r"^project\(tflm_zo VERSION (\S+)", text("CMakeLists.txt"), re.M)[1],
        "CITATION.cff": yaml.safe_load(text("CITATION.cff"))["version"],
    }
    assert found == dict.fromkeys(found, tflm_zo.__version__)


def test_the_changelog_has_this_version_or_says_that_it_will() -> None:
    changes = text("CHANGELOG.md")
    version = tflm_zo.__version__
    assert f"## [{version}]" in changes or f"first release will be {version}." in changes
    # Keep a Changelog's groups.
    groups = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", changes, re.MULTILINE)) <= groups


def test_the_citation_has_what_its_format_asks_for() -> None:
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0" and citation["license"] == "Apache-2.0"
    assert {"message", "title", "authors"} <= citation.keys()


def test_ci_does_what_the_script_says() -> None:
    assert steps("ci")[-1] == ".ci/run" and (REPOSITORY / ".ci/run").is_file()


def test_wheels_are_built_for_each_processor() -> None:
    made = workflow("wheels")["jobs"]["wheels"]
    assert len(made["strategy"]["matrix"]["os"]) == 3
    assert any("cibuildwheel==" in line for line in steps("wheels"))
    named = re.search(r'test-command = "python \{project\}/(\S+)"', text("pyproject.toml"))[1]
    assert (REPOSITORY / named).is_file()


@pytest.mark.parametrize("name", ["ci", "wheels"])
def test_workflows_may_only_read(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}


def test_every_header_has_the_guard_of_its_path() -> None:
    """Under another header's guard it would be left out if both are included."""
    for folder in ("ops", "examples/littlefs", "tests/ops", "tests/cortex_m", "tests/fuzz"):
        for header in (REPOSITORY / folder).rglob("*.h"):
            path = header.relative_to(REPOSITORY)
            if path.parts[:3] == ("ops", "abi", "tflm"):
                continue  # stand-ins by the paths of others
            guard = "TFLM_ZO_" + re.sub(r"\W", "_", str(path)).upper() + "_"
            lines = header.read_text().splitlines()
            begin = lines.index(next(line for line in lines if line.startswith("#")))
            assert lines[begin : begin + 2] == [f"#ifndef {guard}", f"#define {guard}"], path
            assert lines[-1].split()[:3:2] == ["#endif", guard], path
