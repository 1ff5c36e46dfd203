"""The op pack's sources, as they are installed with the package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..converters.errors import ConversionError
from ..core import installed
from .source_text import own

#: Folders of the op pack that firmware compiles.
FOLDERS = ("core", "tflm", "device")


def op_pack_folder() -> Path:
    """Returns the folder of the op pack's sources. Raises ConversionError if they are not installed."""
    try:
        return installed("_ops")
    except FileNotFoundError as error:
        raise ConversionError(f"the op pack's sources are not installed: {error}") from error


def op_pack_sources() -> dict[str, str]:
    """Returns the text of each source by its path in a firmware's folder."""
    root = op_pack_folder()
    return {
        f"ops/{path.relative_to(root).as_posix()}": path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".h", ".c", ".cc")
    }


# Lines of the preprocessor that include or ask, and string literals.
_LITERAL = re.compile(r'(?m)^[ \t]*#[ \t]*(?:include|if|elif)\b.*$|"(?:[^"\\\n]|\\.)*"')


def of_model(sources: Mapping[str, str], name: str) -> dict[str, str]:
    """Renames the op pack, texts of sources by path, for a model whose name is an identifier: all external names have
    it in them (functions, types, macros, namespaces, include guards and files). A program may have several models,
    whose op packs differ in features, struct layouts and perhaps versions, and C and C++ allow one definition of a
    name.
    """
    names = own(name)

    def renamed(text: str) -> str:
        text = re.sub(r"\btflm_zo(?=::|( {$|$))", names["zo"], text, flags=re.M)
        text = re.sub(r"\b(TFLM_(?=ZO_OPS_)|Register_)ZO_", rf"\g<1>{names['ZO']}_", text)
        text = re.sub(r"\bAddZo(?=Ops\b)", f"Add_{names['zo']}_", text)
        return re.sub(r"\bzo_", f"{names['zo']}_", re.sub(r"\bZO_", f"{names['ZO']}_", text))

    def rewritten(text: str) -> str:
        parts, at = [], 0
        for literal in _LITERAL.finditer(text):
            parts.append(renamed(text[at : literal.start()]))
            # Words for users, and names of tensors and operators in models, do not change.
            parts.append(literal[0] if literal[0].startswith('"') else renamed(literal[0]))
            at = literal.end()
        return "".join([*parts, renamed(text[at:])])

    return {renamed(path): rewritten(text) for path, text in sources.items()}


def without_model(text: str, name: str) -> str:
    """Returns a source with the original names of the op pack; the inverse of `of_model`."""
    names = own(name)
    text = re.sub(rf"\bAdd_{names['zo']}_(?=Ops\b)", "AddZo", text)
    text = re.sub(rf"\b(TFLM_|Register_|){names['ZO']}_", r"\1ZO_", text)
    return re.sub(rf"\b{names['zo']}_", "zo_", text)
