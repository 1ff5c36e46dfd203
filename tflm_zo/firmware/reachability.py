"""Removes unreachable declarations from C sources, and separates public and internal headers.

Sources are read as text: a declaration is kept if another kept declaration mentions its name. This keeps too
much if two declarations share a name, and never too little. It relies on the layout of the op pack: a
declaration begins in the first column, and the brace that ends a body stands there, too.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ..converters.errors import ConversionError

_COPYRIGHT: Final = "/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */\n"
_CONDITION: Final = re.compile(r"#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", re.DOTALL)
_DEFINE: Final = re.compile(r"#\s*(?:define|undef)\s+(\w+)(.*)")
_COMPARES: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
}
_INCLUDE: Final = re.compile(r'#\s*include\s+["<]([^">]+)[">]')
_TEXT: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL)
_GUARD: Final = re.compile(r"(#ifndef (\w+_H_)\n#define \2\n)(.*)(#endif +/[/*] ?\2(?: \*/)?\n)", re.DOTALL)
# Mark of a removed part; a comment above it is removed as well.
_GONE: Final = "\0"
_NAMESPACE: Final = re.compile(r"namespace .*\{$|\}  // namespace")
#: Lines of a header that C++ alone reads.
EXTERN_C: Final = re.compile(r'#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n\n?')


def _code(text: str) -> str:
    """Returns a text without comments and literals."""
    return _TEXT.sub(" ", text)


def identifiers(text: str) -> set[str]:
    """Returns the identifiers of a C or C++ source, those of comments and literals apart."""
    return set(re.findall(r"[A-Za-z_]\w*", _code(text)))


# --- conditions ---------------------------------------------------------------------------------------------


def _value(condition: str, known: Mapping[str, int | None]) -> int | None:
    """Returns the value of a condition of the preprocessor, or None where it depends on the build. `known` are values
    of macros by name; None for a macro that is never defined.
    """
    # As Python, with an operator for ! that binds as tightly as C's; the rest of a line that goes on is unknown.
    text = re.sub(r"\bdefined\s+(\w+)", r"defined(\1)", _code(condition).strip())
    text = re.sub(r"!(?!=)", "~", re.sub(r"(?<=\d)[uUlL]+\b", "", text)).replace("\\", "_")
    try:
        tree = ast.parse(text.replace("&&", " and ").replace("||", " or "), mode="eval")
    except SyntaxError:
        return None

    def value(node: ast.expr) -> int | None:
        match node:
            case ast.Constant(int(number)):
                return number
            case ast.Name(name):
                return (known[name] or 0) if name in known else None
            case ast.Call(ast.Name("defined"), [ast.Name(name)]):
                return int(known[name] is not None) if name in known else None
            case ast.UnaryOp(ast.Invert(), operand):
                found = value(operand)
                return None if found is None else int(not found)
            case ast.Compare(left, [compares], [right]):
                sides = value(left), value(right)
                return None if None in sides else int(_COMPARES[type(compares)](*sides))
            case ast.BoolOp(ast.And(), parts):
                values = [value(part) for part in parts]
                return 0 if 0 in values else None if None in values else 1
            case ast.BoolOp(ast.Or(), parts):
                values = [value(part) for part in parts]
                return 1 if any(values) else None if None in values else 0
        return None  # arithmetic

    return value(tree.body)


def _holds(condition: str, known: Mapping[str, int | None]) -> bool | None:
    value = _value(condition, known)
    return None if value is None else value != 0


def constants(sources: Mapping[str, str], known: Mapping[str, int | None]) -> dict[str, int | None]:
    """Returns the values of macros that follow from known ones, as in `_value`, in sources, texts by path: each has one
    definition, without a condition.
    """
    found = dict(known)
    while True:
        defined: dict[str, list[tuple[str, int | None]]] = {}
        includes: dict[str, list[str]] = {}
        for path, text in sources.items():
            depth = 0
            for line in resolve(_GUARD.sub(r"\3", text), found).split("\n"):
                if (condition := _CONDITION.match(line)) is not None:
                    depth += {"endif": -1, "elif": 0, "else": 0}.get(condition[1], 1)
                elif depth == 0 and (include := _INCLUDE.match(line)) is not None:
                    includes.setdefault(path, []).append(include[1])
                elif (define := _DEFINE.match(line)) is not None:
                    value = _value(define[2], found) if depth == 0 else None
                    defined.setdefault(define[1], []).append((path, value))
        always = closure((path for path in sources if not path.endswith(".h")), includes)
        new = {
            name: places[0][1]
            for name, places in defined.items()
            if len(places) == 1 and places[0][1] is not None and places[0][0] in always
        }
        if new.keys() <= found.keys():
            return found
        found = {**new, **found}


def closure(names: Iterable[str], leads: Mapping[str, Collection[str]]) -> set[str]:
    """Returns names, and all to which they lead."""
    found, left = set[str](), list(names)
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += leads.get(name, ())
    return found


def resolve(text: str, known: Mapping[str, int | None]) -> str:
    """Removes the parts of a source whose conditions are false, and conditions that are always true, by values of
    macros as in `_value`; conditions on other macros are kept. A mark replaces each removed part; `layers` and
    `written` remove it.
    """
    # Of each condition around a line: whether a branch that is certain was there, whether this one is there,
    # and whether its directives are.
    open_: list[tuple[bool, bool, bool]] = []
    kept = []
    for line in text.split("\n"):
        found = _CONDITION.match(line)
        outside = all(there for _, there, _ in open_)
        if found is None:
            if outside:
                kept.append(line)
            elif kept[-1:] != [_GONE]:
                kept.append(_GONE)
            continue
        kind, rest = found.groups()
        if kind in ("if", "ifdef", "ifndef"):
            asked = rest if kind == "if" else f"{'!' if kind == 'ifndef' else ''}defined({_code(rest).strip()})"
            value = _holds(asked, known)
            open_.append((value is True, value is not False, value is None))
            if value is None and outside:
                kept.append(line)
            continue
        certain, _, written = open_.pop()
        outside = all(there for _, there, _ in open_)
        if kind == "endif":
            if written and outside:
                kept.append(line)
            continue
        value = (False if certain else True) if kind == "else" else False if certain else _holds(rest, known)
        if written:  # the first branch depends on the build, so the others are kept
            open_.append((certain, not certain, True))
            if outside and not certain:
                kept.append(line)
        elif value is None:
            open_.append((False, True, True))
            if outside:
                kept.append(f"#if{rest}")
        else:
            open_.append((certain or value, value, False))
    return "\n".join(kept)


def written(text: str) -> str:
    """Returns a source without the marks of `resolve`."""
    return re.sub(r"\n{3,}", "\n\n", text.replace(f"{_GONE}\n", ""))


# --- declarations -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Item:
    """A declaration, definition, macro or line that includes."""

    lines: list[str]  # its lines
    path: str  # path of its source
    names: set[str] = field(default_factory=set)  # names that it declares
    mentions: set[str] = field(default_factory=set)  # identifiers in it, and in the conditions around it
    includes: str = ""  # path of the file that it includes, or ""
    function: bool = False  # True of a function's prototype or definition
    own: bool = False  # True if only its source sees its names
    under: tuple[str, ...] = ()  # conditions of the preprocessor around it


@dataclass(eq=False)
class _Comment:
    lines: list[str]


@dataclass(eq=False)
class _Branches:
    """Conditional parts: the directive and the items of each."""

    parts: list[tuple[str, list[_Node]]]
    end: str = "#endif"


_Node = _Item | _Comment | _Branches | None  # None: an empty line


def _parse(text: str, path: str) -> list[_Node]:
    """Returns the items of a source, in order."""
    lines = text.split("\n")
    at = 0

    def take(is_whole: Callable[[str], bool]) -> list[str]:
        nonlocal at
        first = at
        while at < len(lines):
            at += 1
            if is_whole("\n".join(lines[first:at])):
                return [line for line in lines[first:at] if line != _GONE]
        raise ConversionError(f"{path}: {lines[first]!r} does not end: install tflm_zo again")

    def nodes(under: tuple[str, ...]) -> list[_Node]:
        nonlocal at
        found: list[_Node] = []
        while at < len(lines):
            line = lines[at]
            condition = _CONDITION.match(line)
            if not line.strip():
                found.append(None)
                at += 1
            elif condition is not None:
                if condition[1] not in ("if", "ifdef", "ifndef"):
                    return found
                parts = []
                before: tuple[str, ...] = ()
                while not lines[at].startswith("#endif"):
                    directive = "\n".join(take(lambda t: not t.endswith("\\") and _closed(t)))
                    before = _branch(before, directive)
                    parts.append((directive, nodes((*under, *before))))
                    if at == len(lines):
                        raise ConversionError(f"{path}: {parts[0][0]!r} does not end: install tflm_zo again")
                found.append(_Branches(parts, lines[at]))
                at += 1
            elif line == _GONE:
                found.append(_Item([], path))
                at += 1
            elif _NAMESPACE.match(line):
                found.append(_Comment([line]))
                at += 1
            elif line.startswith(("/*", "//")):
                found.append(_Comment(take(_closed)))
            elif line.startswith("#"):
                found.append(_item(take(lambda t: not t.endswith("\\") and _closed(t)), path, under))
            else:
                found.append(_item(take(_is_whole), path, under))
        return found

    found = nodes(())
    if at != len(lines):
        raise ConversionError(f"{path}: {lines[at]!r} ends nothing: install tflm_zo again")
    return found


def _branch(before: tuple[str, ...], directive: str) -> tuple[str, ...]:
    """Returns the conditions of a branch, given those of the branch before it."""
    kind, rest = re.fullmatch(_CONDITION, directive).groups()  # type: ignore[union-attr]
    asked = " ".join(_code(rest).split())
    if kind in ("ifdef", "ifndef"):
        asked = f"defined({asked})"
    own = {"ifndef": (f"!({asked})",), "else": ()}.get(kind, (asked,))
    return (*before[:-1], *(f"!({last})" for last in before[-1:]), *own)


def _closed(text: str) -> bool:
    """Returns whether all comments of a text are closed."""
    return "/*" not in _code(text)


def _is_whole(text: str) -> bool:
    """Returns whether a text is a complete declaration."""
    if not _closed(text):
        return False
    code = _code(text).rstrip()
    if re.search(r"^\s*#", code, re.M):  # braces of some branches alone
        return text.rpartition("\n")[2].startswith("}")
    return code.endswith((";", "}")) and code.count("{") == code.count("}")


def _item(lines: list[str], path: str, under: tuple[str, ...]) -> _Item:
    text = "\n".join(lines)
    mentions = identifiers(text).union({path}, *map(identifiers, under)) - {"defined"}
    item, code = _Item(lines, path, mentions=mentions, under=under), _code(text).strip()
    if (include := _INCLUDE.match(text)) is not None:
        item.includes = include[1]
        item.names = {include[1]}
    elif code.startswith("#"):
        if (define := re.match(r"#\s*(?:define|undef)\s+(\w+)", code)) is not None:
            item.names = {define[1]}
    elif (kind := re.match(r"(?:typedef\s+)?(struct|union|enum)\s*(\w*)\s*(?=[{;])", code)) is not None:
        body, _, declared = code.rpartition("}")
        item.names = {name for name in (kind[2], *re.findall(r"\w+", declared)) if name}
        if kind[1] == "enum":
            item.names |= set(re.findall(r"[{,]\s*(\w+)", body))
    elif code.startswith("typedef"):
        named = re.search(r"\(\*(\w+)\)", code) or re.search(r"(\w+)\s*(?:\[[^\]]*\])?;$", code)
        item.names = set() if named is None else {named[1]}
    else:
        head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", re.split(r"[={]", code, maxsplit=1)[0])
        named = re.search(r"(\w+)\s*\(", head)
        item.function = named is not None
        named = named or re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*;?$", head.strip())
        item.names = set() if named is None else {named[1]}
        item.own = path.endswith(".c") and code.startswith("static")
    if not item.names and not item.includes:
        raise ConversionError(f"{path}: {lines[0]!r} declares nothing that is known: install tflm_zo again")
    return item


def _items(nodes: list[_Node]) -> Iterator[_Item]:
    for node in nodes:
        if isinstance(node, _Item):
            yield node
        elif isinstance(node, _Branches):
            for _, inside in node.parts:
                yield from _items(inside)


def _written(nodes: list[_Node], keeps: Callable[[_Item], bool], about: bool) -> list[str]:
    """Returns the lines of kept items and of their comments, with `about` also of separate comments."""
    lines: list[str] = []
    paragraph: list[_Node] = []

    def close() -> None:
        texts: list[list[str]] = []
        for node in paragraph:
            if isinstance(node, _Item):
                texts.append(node.lines if keeps(node) else [])
            elif isinstance(node, _Branches):
                parts = [(d, _written(inside, keeps, False)) for d, inside in node.parts]
                some = any(line.strip() for _, inside in parts for line in inside)
                texts.append([line for d, inside in parts for line in (d, *inside)] + [node.end] if some else [])
            elif isinstance(node, _Comment):
                texts.append([])
        alone = all(isinstance(node, _Comment) for node in paragraph)
        for i, node in enumerate(paragraph):
            if not isinstance(node, _Comment):
                continue
            after = next(
                (k for k in range(i + 1, len(paragraph)) if isinstance(paragraph[k], _Comment)), len(paragraph)
            )
            if about if alone else any(texts[i + 1 : after]):
                texts[i] = node.lines
        lines.extend(line for text in texts for line in text)
        paragraph.clear()

    for node in nodes:
        if node is None:
            close()
            lines.append("")
        else:
            paragraph.append(node)
    close()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).split("\n")


def _reached(items: Collection[_Item], roots: Collection[str]) -> set[_Item]:
    """Returns the items that declare the names, and the items that these mention, directly or indirectly."""
    declared: dict[tuple[str, str], list[_Item]] = {}
    for item in items:
        for name in item.names:
            declared.setdefault((item.path if item.own else "", name), []).append(item)
    found: set[_Item] = set()
    left = [("", name) for name in roots]
    seen = set(left)
    while left:
        for item in declared.get(left.pop(), ()):
            if item not in found:
                found.add(item)
                new = {(scope, name) for name in item.mentions for scope in ("", item.path)} - seen
                seen |= new
                left += new
    return found


def _hide(items: Collection[_Item], known: Collection[str]) -> None:
    """Makes functions of a source, which is compiled as a whole, `static` if no other source calls them; `known` are
    the names that others may call. The compiler would warn of a function that has no caller for some values of macros,
    so it stays visible.
    """
    includes: dict[str, list[str]] = {}
    declared: dict[str, list[_Item]] = {}
    for item in items:
        if item.includes and not item.under:
            includes.setdefault(item.path, []).append(item.includes)
        if item.function and re.match("static |[A-Z_]+ ", item.lines[0]) is None:
            for name in item.names.difference(known):
                declared.setdefault(name, []).append(item)
    always = closure((item.path for item in items if item.path.endswith(".c")), includes)
    used: dict[str, list[Collection[str]]] = {}
    for item in items:
        if item.function and item.path in always:
            for under, mentions in _mentions(item):
                for name in mentions - item.names:
                    used.setdefault(name, []).append(under)
    for name, found in declared.items():
        conditions = set(found[0].under)
        is_called = any(conditions.issuperset(under) for under in used.get(name, ()))
        if is_called and all(conditions == set(item.under) for item in found):
            for item in found:
                item.lines[0] = f"static {item.lines[0]}"


def _mentions(item: _Item) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Yields the conditions around each line of a function, and its identifiers."""
    branches: list[tuple[str, ...]] = []
    for line in _code("\n".join(item.lines)).split("\n"):
        condition = _CONDITION.match(line.strip())
        if condition is None:
            yield item.under + sum(branches, ()), identifiers(line)
        elif condition[1] == "endif":
            branches.pop()
        else:
            branches.append(_branch(() if condition[1].startswith("if") else branches.pop(), line.strip()))


def _source(text: str, path: str) -> tuple[str, str, list[_Node], str]:
    """Splits a source into its first comment, the beginning of its guard, its items, and the end of its guard."""
    guard = _GUARD.search(text)
    about, begin, body, end = ("", "", text, "") if guard is None else (text[: guard.start()], *guard.group(1, 3, 4))
    return about, begin, _parse(EXTERN_C.sub("", body), path), end


def reached(sources: Mapping[str, str], roots: Collection[str]) -> dict[str, str]:
    """Returns sources with only the items that are reachable from names."""
    parsed = {path: _source(text, path) for path, text in sources.items()}
    kept = _reached([item for _, _, nodes, _ in parsed.values() for item in _items(nodes)], roots)
    return {
        path: about + begin + "\n".join(_written(nodes, lambda item: bool(item.includes) or item in kept, True)) + end
        for path, (about, begin, nodes, end) in parsed.items()
    }


def layers(
    sources: Mapping[str, str], public: Collection[str], internal: Collection[str], roots: Collection[str]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Returns the reachable parts of C sources in three layers, for applications, for the C++ sources, and the rest:
    texts by path, without empty ones. Each layer needs only the layers before it. Sources are texts by the path by
    which others include them. `public` are paths of the headers that applications read, `internal` identifiers of the
    C++ sources, which read them, too, and `roots` names that are always kept for those.
    """
    parsed = {path: _source(text, path) for path, text in sources.items()}
    included = {item.includes for _, _, nodes, _ in parsed.values() for item in _items(nodes)}
    for path in [p for p in parsed if p.endswith(".h") and p not in included and p not in public]:
        del parsed[path]  # of other processors
    items = [item for _, _, nodes, _ in parsed.values() for item in _items(nodes)]
    includes: dict[str, list[str]] = {path: [] for path in parsed}
    for item in items:
        includes[item.path] += [item.includes] if item.includes in parsed else []
    headers = [item for item in items if item.path.endswith(".h")]
    exported = {n for item in items if item.path in public and not item.includes for n in item.names}
    for_applications = _reached([item for item in headers if not item.includes], exported)
    for_trainers = _reached(headers, {*internal, *roots}) - for_applications
    rest = _reached(items, {*exported, *internal, *roots}) - for_applications - for_trainers
    _hide(rest, {name for item in (*for_applications, *for_trainers) for name in item.names})
    found: list[dict[str, str]] = []
    described: set[str] = set()
    for layer in (for_applications, for_trainers, rest):
        own = {item.path for item in layer if not item.includes}
        about_now = (own & set(public) if layer is for_applications else own) - described
        if layer is rest:  # sources that choose a header by the processor
            own |= {p for p in parsed if p.endswith(".c") and all(i.includes for i in _items(parsed[p][2]))}
        # Headers with nothing in the layer may lead to others that have something.
        there = closure(own, includes)
        texts = {}
        for path in parsed.keys() & there:
            about, begin, nodes, end = parsed[path]
            lines = _written(nodes, partial(_is_kept, layer=layer, there=there), path in own)
            texts[path] = f"{about if path in about_now else _COPYRIGHT}{begin}" + "\n".join(lines) + end
        if layer is rest:  # headers with the name of a kept item that no kept source includes
            read = closure((path for path in texts if path.endswith(".c")), includes)
            texts = {path: text for path, text in texts.items() if path in read}
        described |= about_now
        found.append(texts)
    return found[0], found[1], found[2]


def _is_kept(item: _Item, *, layer: Collection[_Item], there: Collection[str]) -> bool:
    """Returns whether an item is in a layer, or includes a file with an item of it."""
    return item.includes in there if item.includes.startswith("ops/") else bool(item.includes) or item in layer
