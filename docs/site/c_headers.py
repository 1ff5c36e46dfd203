# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The directive ``c-header``: the declarations of a header with the comments before them.

It reads headers as clang-format leaves them: a declaration begins at the margin of its scope, its comment
stands right before it, and declarations that share one follow each other without an empty line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tflm_zo.firmware.source_text import fill

REPOSITORY = Path(__file__).parents[2]

# Of the generator's templates: a run by nodes, and names as they are in the core.
TEMPLATE = {
    "zo": "zo",
    "ZO": "ZO",
    "kind": "node",
    "autoencoder": True,
    "sequence": 2,
    "models": {},
    "tasks": "",
    "drift": {"name": "LAYER"},
}
# Lines that declare nothing, at the margin.
NOISE = re.compile(r'#(?!define)\w*\b.*|extern "C" \{|namespace .*\{|\}.*|struct \w+;.*')
COMMENT = re.compile(r"/\*.*?\*/\n|(?://[^\n]*\n)+", re.DOTALL)
# Parts of a sentence that are code: text in backticks, members, calls, files, names with an underscore.
CODE = re.compile(r"`[^`]+`|\b\w+(?:(?:\(\))?(?:\.|->|::)\w+)+(?:\(\))?|\b\w+\(\)|\b(?:[\w/]+/)?\w+_\w+(?:\.h)?\b")


@dataclass
class Declared:
    """Declarations that share a comment.

    Attributes:
        comment: its text, without comment signs.
        sources: each declaration as it is written, without the body of a function.
        inner: of a class, its public members.
    """

    comment: str
    sources: list[str] = field(default_factory=list)
    inner: list[Declared] = field(default_factory=list)


def stripped(comment: str) -> str:
    """Returns the text of a comment."""
    text = re.sub(r"^ ?/?\*+/? ?|^// ?|\s*\*/$", "", comment.rstrip(), flags=re.MULTILINE)
    return re.sub(r"^ ?(?=Copyright).*\n+", "", text)


def ending(text: str, start: int) -> tuple[int, bool]:
    """Finds the end of a declaration. True: a body begins there."""
    depth = 0
    for found in re.compile(r"/\*.*?\*/|//[^\n]*|[;{}()]", re.DOTALL).finditer(text, start):
        sign = found[0]
        if sign in "({":
            depth += 1
        elif sign in ")}":
            depth -= 1
            if sign == "}" and depth == 0 and not re.match(r"[ \w]*;", text[found.end() :]):
                return found.end(), True
        elif sign == ";" and depth == 0:
            return found.end(), False
    raise ValueError(f"no end: {text[start : start + 200]}")


def declarations(text: str) -> list[Declared]:
    """Finds the declarations at a scope's margin."""
    every: list[Declared] = []
    at, comment, together = 0, "", None
    while at < len(text):
        line = text[at : text.find("\n", at) + 1 or len(text)]
        if not line.strip():
            at, comment, together = at + len(line), "", None
        elif found := COMMENT.match(text, at):
            at, comment, together = found.end(), stripped(found[0]), None
        elif NOISE.fullmatch(line.rstrip("\n")):
            while line.endswith("\\\n"):
                at += len(line)
                line = text[at : text.find("\n", at) + 1]
            at += len(line)
        else:
            end, source, members = whole(text, at)
            if together is None:
                together = Declared(comment)
                every.append(together)
            together.sources.append(source)
            together.inner = declarations(members)
            at = end
    return every


def whole(text: str, at: int) -> tuple[int, str, str]:
    """Reads a declaration: the position behind it, its source, and the members of a class."""
    if text.startswith("#define", at):
        end = re.compile(r"(?:.*\\\n)*.*\n").match(text, at)
        assert end is not None
        return end.end(), end[0].rstrip("\n"), ""
    end_at, has_body = ending(text, at)
    source = text[at:end_at]
    head = source.partition("{")[0].strip()
    rest = re.compile(r"[ ;]*(?://[^\n]*|/\*.*?\*/)?\n?", re.DOTALL).match(text, end_at)
    after = end_at if rest is None else rest.end()
    if head.startswith("class "):
        public = re.search(r" public:\n(.*?)(?:^ \w+:\n|\Z)", source, re.DOTALL | re.MULTILINE)
        members = re.sub(r"^  ", "", public[1], flags=re.MULTILINE) if public else ""
        return after, head, members.removesuffix("}")
    return after, head if has_body and "(" in head else text[at:end_at], ""


def paragraphs(comment: str) -> Iterator[str]:
    """Converts a comment to Markdown."""
    lines = [*re.sub(r"\n(?=(?:Errors|Returns)\b)", "\n\n", comment).split("\n"), ""]
    runs: list[tuple[bool, list[str]]] = []
    for line in lines:
        indented = line.startswith("  ")
        if not line.strip():
            if runs and runs[-1][0]:
                runs[-1][1].append("")
            else:
                runs.append((False, []))
        elif runs and runs[-1][0] == indented and runs[-1][1]:
            runs[-1][1].append(line)
        else:
            runs.append((indented, [line]))
    for indented, content in runs:
        if not any(content):
            continue
        if not indented:
            yield sentence(" ".join(content))
        elif rows := names("\n".join(content)):
            yield "\n".join(f"* `{name}`: {sentence(text)}" for name, text in rows)
        else:
            width = min(len(line) - len(line.lstrip()) for line in content if line)
            block = "\n".join(line[width:] for line in content).strip("\n")
            yield f"```text\n{block}\n```"


def names(text: str) -> list[tuple[str, str]]:
    """Reads rows of a name, two or more spaces, and its meaning. Returns [] for any other text."""
    rows = re.findall(r"^ {2,3}([a-z_]\w*(?:, \w+)*) {2,}(\S.*(?:\n {5,}\S.*)*)", text, re.MULTILINE)
    used = sum(len(re.sub(r"\s", "", name + meaning)) for name, meaning in rows)
    return rows if used == len(re.sub(r"\s", "", text)) else []


def sentence(text: str) -> str:
    """Marks identifiers as code, and escapes the rest for Markdown."""
    parts, at = [], 0
    text = " ".join(text.split())
    for found in CODE.finditer(text):
        parts.append(re.sub(r"([\\*_<>\[\]|#])", r"\\\1", text[at : found.start()]))
        parts.append(found[0] if found[0].startswith("`") else f"`{found[0]}`")
        at = found.end()
    return "".join(parts) + re.sub(r"([\\*_<>\[\]|#])", r"\\\1", text[at:])


def role(source: str, language: str) -> tuple[str, str, bool]:
    """Chooses the directive and signature of a declaration. True: the page also shows its source."""
    flat = " ".join(re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.DOTALL).split()).rstrip("; ")
    if template := re.match(r"template <[^>]*> ", flat):
        kind, signature, is_shown = role(flat.removeprefix(template[0]), language)
        return kind, template[0] + signature, is_shown
    if macro := re.match(r"#define (\w+(?:\([^)]*\))?)", flat):
        return "c:macro", macro[1], True
    if record := re.match(r"(?:typedef )?(struct|enum) (\w+) \{", flat):
        return f"{language}:{record[1]}", record[2], True
    if record := re.match(r"class (\w+)", flat):
        return "cpp:class", flat.removeprefix("class "), False
    if alias := re.match(r"using (\w+) = (.*)", flat):
        return "cpp:type", f"{alias[1]} = {alias[2]}", False
    if flat.startswith("typedef "):
        return f"{language}:type", flat.removeprefix("typedef "), False
    if "(" in flat and not re.match(r"(?:extern|constexpr) [^(]*=", flat):
        bare = re.sub(r"\b(?:static|inline|extern|constexpr) |\[\[\w+\]\] ", "", flat)
        bare = re.sub(r" = default$| : .*$", "", bare)
        return f"{language}:function", bare, False
    return f"{language}:{'var' if language == 'c' else 'member'}", re.sub(r"\bextern ", "", flat), False


def documented(found: Declared, language: str, depth: int) -> Iterator[str]:
    """Converts declarations to Markdown. The comment of the first documents them all."""
    fence = "`" * (8 - 2 * depth)
    signatures = set()
    for source in found.sources:
        kind, signature, is_shown = role(source, language)
        if signature in signatures:
            continue  # the form that a macro has in other builds
        signatures.add(signature)
        yield f"{fence}{{{kind}}} {signature}\n"
        if source is found.sources[0]:
            yield from (f"{text}\n" for text in paragraphs(found.comment))
        if is_shown and ("\n" in source or " " in source.partition(" ")[2]):
            yield f"```c\n{source}\n```\n"
        for member in found.inner:
            yield from documented(member, "cpp", depth + 1)
        yield fence


def header(path: Path) -> Iterator[str]:
    """Converts a header to Markdown: its introduction and its declarations."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".in":
        text = fill(path.name, **TEMPLATE)
        text = text.replace("namespace zo ", "namespace tflm_zo ")
    first = COMMENT.match(text)
    if first and "Copyright" in first[0]:
        yield from (f"{part}\n" for part in paragraphs(stripped(first[0])))
        text = text[first.end() :]
    text = re.sub(r"^#ifndef \w+_H_\n#define \w+_H_\n", "", text, flags=re.MULTILINE)
    # Of two declarations of a name, the one that most builds have.
    text = re.sub(r"^#ifdef \w+\n(?:(?![# ]).*\n)+#else\n", "", text, flags=re.MULTILINE)
    language = "cpp" if "\nnamespace " in text else "c"
    space = re.search(r"^namespace (\w+) \{", text, re.MULTILINE)
    if space:
        yield f"```{{cpp:namespace}} {space[1]}\n```\n"
    for found in declarations(text):
        yield from documented(found, language, 1)
    if space:
        yield "```{cpp:namespace} NULL\n```\n"


class Header(SphinxDirective):
    """The declarations of a header."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the nodes that replace the directive."""
        path = REPOSITORY / self.arguments[0]
        self.env.note_dependency(path)
        return self.parse_text_to_nodes("\n".join(header(path)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directive. Sphinx calls it."""
    app.add_directive("c-header", Header)
    return {"parallel_read_safe": True}
