# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Checks the English of pages, help texts, errors, docstrings and comments.

python docs/check_prose.py [FILE…]

Counts clauses that stand in the place of a noun, per 1,000 words and folder, and first lines of functions'
docstrings that do not begin with a verb. CONTRIBUTING.md has the rules. With files, lists the clauses of the
files. The exit status is 1 if a kind of text exceeds its limit.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]

#: Nominal clauses per 1,000 words that a kind of text may have.
LIMITS = {"pages": 0.5, "help": 0.5, "errors": 0.5, "docstrings": 0.5, "comments": 0.5}
#: Percent of the functions' docstrings whose first line may begin with another word than a verb.
OTHER_FIRST_WORDS = 8.5

#: Relative words at the place of a noun. Questions, "people who" and "the layers that" do not count.
NOMINAL = re.compile(
    r"\bwhat\b|\b(?:what|who|which)ever\b|\bthose\s+(?:that|which|who|whose)\b|\bthat\s+which\b"
    r"|\ball\s+that\b|\b(?:for|of|by|to|with|than|from)\s+who\b|^\W*who\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][\w'’-]*")
#: Parts of a text that are no English: code, addresses, formulas of Sphinx.
CODE = re.compile(r"``.*?``|`[^`]*`|https?://\S+|:\w+:`|<[^>\n]*>", re.DOTALL)
VERBS = set(
    "abort accept adapt add adjust aggregate allocate allow answer append apply approximate arrange ask "
    "assert assign attach average avoid become begin bind boot bound break bring build calculate call "
    "carry change check choose claim clamp clear clip close collect combine compare compile complete "
    "compute connect consume contain continue convert copy count cover create cut decide declare decode "
    "define delete deliver deploy derive describe detect determine dilate discard display divide do "
    "download draw drop edit encode end enlarge ensure enter equal estimate evaluate exclude execute "
    "expand explain export extend extract fail feed fetch fill filter find finish fit flatten flush "
    "fold follow forget form format free freeze gain generate get give go group grow guard hand handle "
    "hash have hide hold ignore implement import include index infer initialize inject insert inspect "
    "interpolate interrupt invoke join keep kill label launch lay lead learn leave lend let limit link "
    "list load lock log look lose lower make map mark mask match measure merge mirror mix mount move "
    "multiply name normalize note obtain omit open order pack pad parse pass perturb pick place plan "
    "plot point predict prepare print probe produce protect prove provide publish put quantize raise "
    "reach read rebuild receive recompute record reduce refer refuse register reject release rename "
    "render repeat replace replay report represent request require rescale reserve reset reshape "
    "resolve restart restore restrict resume retry return reverse revert rewrite round run sample save "
    "say scale score search select send serialize serve set share shift shorten show shrink shuffle "
    "skip slice sort specify spell split standardize start state step stop store stream subtract "
    "suggest sum summarize supply suspend swap switch synthesize take tear tell terminate test throw "
    "tie trace track train transform translate transpose truncate try tune turn undo unfold unpack "
    "update upload use validate verify visit wait walk want warn watch weigh widen withdraw wrap write "
    "yield".split()
)


class Text(NamedTuple):
    """A text of one kind, and the line of the file at which it begins."""

    kind: str
    line: int
    words: str


def first_word_is_a_verb(line: str) -> bool:
    """Returns True if a line begins with a verb, "Reads" or "Read"."""
    word = (WORD.findall(line) or [""])[0].lower()
    forms = {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}
    return bool(forms & VERBS)


def clauses(text: str) -> Iterator[str]:
    """Yields the sentences with a nominal clause, once for each clause."""
    plain = CODE.sub("code", text)
    for paragraph in re.split(r"\n\s*\n|(?<=\|)|\n(?=\s*(?:[*#-]|\d+\.) )", plain):
        for sentence in re.findall(r"(?:[^.?!;]|[.?!;](?!\s|$))+[.?!;]*", paragraph):
            if sentence.rstrip(" )\"'*_").endswith("?"):
                continue
            for _ in range(len(NOMINAL.findall(sentence))):
                yield " ".join(sentence.split())


def of_markdown(source: str) -> Iterator[Text]:
    """Yields the prose of a page, without fenced code and targets of links."""
    prose = re.sub(r"^ *(```|~~~).*?^ *\1[^\n]*$", lambda m: "\n" * m[0].count("\n"), source, flags=re.S | re.M)
    yield Text("pages", 1, re.sub(r"\]\([^)]*\)", "]", prose))


def constants(node: ast.AST) -> str:
    """Joins all string constants below a node."""
    found = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return " ".join(found)


def of_python(source: str) -> Iterator[Text]:
    """Yields docstrings, comments, errors and help texts of a module."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            line = node.body[0].lineno
            yield Text("docstrings", line, text)
            properties = {"property", "cached_property"}
            decorators = {d.id for d in getattr(node, "decorator_list", []) if isinstance(d, ast.Name)}
            if isinstance(node, documented[2:]) and not decorators & properties:
                yield Text("first lines", line, text.splitlines()[0])
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield Text("errors", node.lineno, constants(node.exc))
        elif isinstance(node, ast.keyword) and node.arg == "help":
            yield Text("help", node.value.lineno, constants(node.value))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("argument", "optional"):
            # of tflm_zo/cli/options.py; the first argument is the value's name
            yield from (Text("help", text.lineno, constants(text)) for text in node.args[1:2])
    comment, begin, last = "", 0, -2
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield Text("comments", begin, comment)
                comment, begin = "", token.start[0]
            comment, last = f"{comment} {token.string.lstrip('#:')}", token.start[0]
    yield Text("comments", begin, comment)


def of_c(source: str) -> Iterator[Text]:
    """Yields comments of C and C++. Strings are skipped."""
    pattern = r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|(?://[^\n]*\n\s*)+'
    for found in re.finditer(pattern, source, re.DOTALL):
        if found[0].startswith("/"):
            line = source.count("\n", 0, found.start()) + 1
            yield Text("comments", line, re.sub(r"^\s*(?://+|/?\*+/?)|\*/", " ", found[0], flags=re.M))


READERS = {"md": of_markdown, "py": of_python, "c": of_c, "h": of_c, "cc": of_c}


def texts(path: Path) -> list[Text]:
    """Returns all texts of a file, without the line of the licence."""
    source = path.read_text(encoding="utf-8")
    found = (
        text._replace(words=re.sub(r"Copyright.*SPDX-License-Identifier: \S+", "", text.words))
        for text in READERS[path.suffix[1:]](source)
    )
    return [text for text in found if text.words.strip()]


def files() -> list[Path]:
    """Lists every file with prose that git knows."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *(f"*.{s}" for s in READERS)]
    names = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
    return [path for name in sorted(names) if (path := REPOSITORY / name).is_file() and not path.is_symlink()]


def main(named: list[str]) -> int:
    """Prints a table, or the clauses of named files; returns the exit status."""
    words: Counter[tuple[str, str]] = Counter()
    nominal: Counter[tuple[str, str]] = Counter()
    first, others = 0, 0
    for path in [Path(name).resolve() for name in named] or files():
        parts = path.relative_to(REPOSITORY).parts
        folder = "/".join(parts[:2] if parts[0] in ("ops", "tflm_zo") else parts[:1]) if parts[1:] else "."
        for kind, line, text in texts(path):
            if kind == "first lines":
                verb = first_word_is_a_verb(text)
                first, others = first + 1, others + (not verb)
                if named and not verb:
                    print(f"{path}:{line}: no verb: {text}")
                continue
            found = list(clauses(text))
            words[folder, kind] += len(WORD.findall(CODE.sub("", text)))
            nominal[folder, kind] += len(found)
            for sentence in found if named else ():
                print(f"{path}:{line}: {kind}: {sentence}")
    rows = sorted({folder for folder, _ in words})
    print(f"{'nominal clauses per 1,000 words':34}", *(f"{kind:>11}" for kind in LIMITS))
    for row in [*rows, "all"]:
        cells = []
        for kind in LIMITS:
            count = [sum(c[f, kind] for f in rows if row in (f, "all")) for c in (nominal, words)]
            cells.append(f"{1000 * count[0] / count[1]:11.2f}" if count[1] else f"{'':>11}")
        print(f"{row:34}", *cells)
    print(f"first lines of functions' docstrings without a verb: {others} of {first}")
    failed = [
        f"{kind}: {rate:.2f} nominal clauses per 1,000 words, at most {limit}"
        for kind, limit in LIMITS.items()
        if (total := sum(words[f, kind] for f in rows))
        and (rate := 1000 * sum(nominal[f, kind] for f in rows) / total) > limit
    ]
    if first and 100 * others / first > OTHER_FIRST_WORDS:
        failed.append(f"first lines: {100 * others / first:.1f} % without a verb, at most {OTHER_FIRST_WORDS}")
    print("\n".join(failed))
    return int(bool(failed) and not named)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
