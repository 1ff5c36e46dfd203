"""The check of prose counts clauses that stand for a noun, in each kind of text, and nothing else."""

import runpy
from pathlib import Path

import pytest

from helpers.pages import DOCS

check = runpy.run_path(str(DOCS / "check_prose.py"))


@pytest.mark.parametrize(
    "sentence",
    [
        "It says what was wrong.",
        "What is no device of this run is left out.",
        "Whatever is chosen is said.",
        "One of those that end is dropped.",
        "Who builds it needs a compiler.",
        "It is a page for who wants to know.",
        "The sum is that which the device computes.",
        "A host repeats all that times out.",
        "Take the rate, whichever is larger.",
        "A question? It says what follows.",
    ],
)
def test_a_clause_as_a_noun_is_counted(sentence: str) -> None:
    assert len(list(check["clauses"](sentence))) == 1


@pytest.mark.parametrize(
    "sentence",
    [
        "What does it cost?",
        "## What does a step cost?",
        "People who train models know the layers that learn.",
        "`what` and ``those that`` are code; https://what.example is an address.",
        "It also fits all of that, for instance; that is the layer which learns.",
        "The whole model is copied. Somewhat later it is sent.",
    ],
)
def test_questions_and_relative_clauses_are_not(sentence: str) -> None:
    assert list(check["clauses"](sentence)) == []


def kinds(text: str, suffix: str, tmp_path: Path) -> list[tuple[str, int]]:
    path = tmp_path / f"text.{suffix}"
    path.write_text(text, encoding="utf-8")
    return [(kind, line) for kind, line, words in check["texts"](path) if list(check["clauses"](words))]


def test_each_kind_of_text_is_read(tmp_path: Path) -> None:
    python = '''# Copyright what SPDX-License-Identifier: Apache-2.0
"""Does what it should."""
x = option("--x", help="What is said.")  # it keeps what is left
text = "what is no prose"
def f():
    """Reads a file."""
    raise ValueError(f"{x} is what", " it is")
'''
    assert sorted(kinds(python, "py", tmp_path)) == [("comments", 3), ("docstrings", 2), ("errors", 7), ("help", 3)]
    c = 'const char* s = "/* what it is */";\n// It says\n// what it is.\nint f(void); /* fine */\n'
    assert kinds(c, "c", tmp_path) == [("comments", 2)]
    page = "A page.\n\n```sh\necho what it is\n```\n\n[a link](what-it-is.md)\n"
    assert kinds(page, "md", tmp_path) == []
    assert kinds(page + "\nIt says what it is.\n", "md", tmp_path) == [("pages", 1)]


@pytest.mark.parametrize(
    ("line", "verb"),
    [("Reads a log.", True), ("Apply an update.", True), ("Copies it", True), ("The weights of a layer.", False)],
)
def test_a_first_line_begins_with_a_verb(line: str, verb: bool) -> None:
    assert check["first_word_is_a_verb"](line) == verb


@pytest.mark.slow  # reads every text of the project, as `make lint` does
def test_a_rate_above_its_limit_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every kind of text is within its limit, and the check can fail."""
    assert check["main"]([]) == 0, capsys.readouterr().out
    monkeypatch.setitem(check["LIMITS"], "comments", 0.001)
    assert check["main"]([]) == 1
    assert "comments: " in capsys.readouterr().out.splitlines()[-1]
