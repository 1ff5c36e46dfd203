# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How Sphinx makes the documentation's site: `make docs`.

The source folder is the whole repository, so that a link between two Markdown files leads to the same place
on a code host and on the site; `include_patterns` says which files are pages.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("site")))

project = "tflm_zo"
author = copyright = "The tflm_zo Authors"
html_title = "tflm_zo"

include_patterns = [
    "*.md",
    "docs/**.md",
    "examples/*/README.md",
    "tests/fuzz/README.md",
    "ops/**/README.md",
    "converters/README.md",
    "tflm_zo/*/README.md",
]
# Folders without pages, and a link to a folder that is read under its own name.
exclude_patterns = ["build", "tflm_zo/converters", "benchmarks", ".*"]
root_doc = "docs/index"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "c_headers",
    "command_options",
    "public_names",
]
default_role = "literal"
# Blocks of docstrings are equations more often than Python; blocks of pages name their language.
highlight_language = "none"
# TensorFlow takes seconds to import, and the site is made without it.
autodoc_mock_imports = ["keras", "tensorflow"]
autodoc_type_aliases = {
    "ArrayLike": "numpy.typing.ArrayLike",
    "Labels": "tflm_zo.data.Labels",
    "NDArray": "numpy.typing.NDArray",
    "Samples": "tflm_zo.data.Samples",
    "WeightArray": "tflm_zo.converters.WeightArray",
}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_use_rtype = False
myst_heading_anchors = 4

nitpicky = True
# Names that other projects document: their inventories would have to be downloaded.
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|np|os|array|pathlib|collections|_?ctypes|enum|abc|threading|flwr|rich|types|xml)\..*"),
    ("c:identifier", r"u?int\d+_t|size_t"),
    # The domain of C++ does not know that of C, nor TFLM.
    ("cpp:identifier", r"u?int\d+_t|size_t|(zo|ZO)_\w+|tflite(::\w+)?|TfLite\w+|TFLM\w+"),
    ("py:class", r"NDArray|ArrayLike|DTypeLike"),
    # Classes that no package exports, and types by another name, which Sphinx 8 does not look for.
    ("py:.*", r"tflm_zo(\.\w+){3,}|Run|RunSettings|InjectChanges|FileInUseError|Watch|Offset|Queries|Details"),
    ("py:class", r"(tflm_zo\.(data|converters)\.)?(Samples|Labels|WeightArray)|Keep|ProbeProgress"),
    # Words before the colon of a section "Returns", which are no types.
    ("py:class", r".*[^\w.].*"),
]

html_theme = "furo"
# Pages lie in docs/ of the site, as they do in the repository.
templates_path = ["site/templates"]
html_additional_pages = {"index": "to_index.html"}
html_copy_source = False
