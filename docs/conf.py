# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""How Sphinx makes the documentation's site: `make docs`.

The source folder is the whole repository, so that a link between two Markdown files leads to the same place
on a code host and on the site; `include_patterns` says which files are pages.
"""

project = "tflm_zo"
author = copyright = "The tflm_zo Authors"
html_title = "tflm_zo"

include_patterns = ["*.md", "docs/**.md", "examples/*/README.md", "tests/fuzz/README.md"]
# Folders that nothing of a page lies in, which need not be walked through.
exclude_patterns = ["build", "tflm_zo", "benchmarks", ".*"]
root_doc = "docs/index"

extensions = ["myst_parser"]
myst_heading_anchors = 4

nitpicky = True

html_theme = "furo"
# Pages lie in docs/ of the site, as they do in the repository.
templates_path = ["site/templates"]
html_additional_pages = {"index": "to_index.html"}
html_copy_source = False
