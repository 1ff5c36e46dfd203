# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Makes docs/algorithms.md and a page for each algorithm in docs/algorithms: of the functions of
tflm_zo/training/algorithms.py, the settings' docstrings, a step of each algorithm, and docs/results.md.

python docs/generate_algorithms.py
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tflm_zo import Bits, Exact, Gradient, Nodes, Settings, Step, Trainer, Weights
from tflm_zo.converters import load_model, read_metadata
from tflm_zo.core import SEED_LOG_HEADER_BYTES, SNAPSHOT_RECORD_BYTES
from tflm_zo.firmware import plan_run
from tflm_zo.firmware.device_model import device_model
from tflm_zo.firmware.sizes import workspace_bytes
from tflm_zo.logs import Log, is_snapshot_log
from tflm_zo.training import ALGORITHMS, inject_for, trained_layers
from tflm_zo.training.algorithms import DEFAULT, summary
from tflm_zo.training.setting_texts import PARTS, Part, resolve, value_of, written, written_settings

DOCS = Path(__file__).parent
MADE = "<!-- Made by docs/generate_algorithms.py: change docstrings in tflm_zo/training and run it again. -->"

HEAD = """# Algorithms

{made}

An algorithm defines the perturbation, the update and the settings of a run. Select it with `--algorithm NAME`
of `tflm-zo train`, `inject` and `firmware`, or with a function of `tflm_zo.algorithms` in Python. The default
is `{default}`. `tflm-zo algorithms NAME` prints the settings of an algorithm.

Each algorithm has a page with its equation, paper, cost and accuracy. [The settings](#the-settings) of all
algorithms are below.

| `--algorithm` | description |
| --- | --- |
"""
SETTINGS = """
## The settings

A run has the settings of `Settings` and of its tasks. Each of them is a class in Python. `--set NAME=VALUE`
of `train` and `firmware` changes a setting. Omit the task's name and the dot if the setting's name is unique
in the run. `auto` on the command line is `None` in Python. A rule or schedule is an object in Python. On the
command line it has the name of its class in lower case, and its fields are settings of the run.
"""
PAGE = """# {name}

{made}

{text}
In the equation, W and w are weights, y the outputs of a layer, a its inputs, z a random direction, mu its
size, L a loss, and G an estimated gradient. An LSB is one level of an int8 weight or activation.

Paper: {paper}

## Usage

```sh
tflm-zo train model.tflite adapt.npz -o trained.tflite --algorithm {name} --steps 2
```

```python
import tflm_zo as zo

trainer = zo.Trainer("model.tflite", zo.algorithms.{function}())
trainer.fit("adapt.npz", steps=2)
```

{own}Tasks: {tasks}. Settings that differ from [the tasks' defaults](../algorithms.md#the-settings):
{values}.

## Cost of a step

On a LeNet-5 of 61,470 weights, with the settings above, a step

* trains {share} of the weights,
* takes a minibatch of {batch} samples and {equivalents} forward equivalents, {each} a sample,
* keeps {kept} on a device in addition to the arena,
* adds {logged}.

[Costs](../costs.md) has time, RAM and flash on devices.

## Accuracy

Test accuracies of LeNet-5 on rotated MNIST, in per cent:

{learned}
[Results](../results.md#{anchor}) describes the measurement and compares all algorithms.

Next: {next}.
"""
# Places of an algorithm's accuracy in docs/results.md: a section, and the beginnings of a table's rows.
LEARNED = {
    "node": ("Rotated MNIST", "node perturbation, strictly"),
    "weight": ("Rotated MNIST", "whole-model weight"),
    "layer": ("Rotated MNIST", "layer-wise weight"),
    "exact": ("Rotated MNIST", "exact gradients of all"),
    "poor-mans-training": ("Rotated MNIST", "Poor Man's Training"),
    "qzo-ff": ("Rotated MNIST", "QZO-FF"),
    "elastic-zo": ("Rotated MNIST", "ElasticZO, one"),
    "elastic-zo-int8": ("Rotated MNIST", "none: all layers", "one", "two"),
    "fqt": ("Rotated MNIST", "FQT, two"),
    "mezo": ("Rotated MNIST", "MeZO"),
    "deepzero": ("Rotated MNIST", "DeepZero"),
}
KINDS: dict[str, type[Any]] = {"": Settings, "nodes": Nodes, "weights": Weights, "exact": Exact}
NOT_SET = ("tasks", "algorithm")  # not by --set


def pages() -> dict[Path, str]:
    """Returns the texts of docs/algorithms.md and of the pages in docs/algorithms."""
    rows = [f"| [`{name}`](algorithms/{name}.md) | {summary(name)} |" for name in ALGORITHMS]
    tree = "\n".join(f"algorithms/{name}" for name in ALGORITHMS)
    first = next(iter(ALGORITHMS))
    parts = [HEAD.format(default=DEFAULT, made=MADE) + "\n".join(rows) + "\n"]
    parts += [SETTINGS, *(settings_section(task, kind) for task, kind in KINDS.items())]
    parts += [f"\n```{{toctree}}\n:hidden:\n{tree}\n```\n\nNext: [`{first}`](algorithms/{first}.md).\n"]
    made = {DOCS / "algorithms" / f"{name}.md": algorithm_page(name) for name in ALGORITHMS}
    return {DOCS / "algorithms.md": "".join(parts), **made}


def algorithm_page(name: str) -> str:
    """Describes an algorithm: its summary, equation, paper, use, cost and accuracy."""
    function, settings = ALGORITHMS[name], ALGORITHMS[name]()
    text, _, references = (inspect.getdoc(function) or "").partition("\n\nReferences:\n")
    own = [f"{p.name}={p.default!r}" for p in inspect.signature(function).parameters.values() if p.name != "run"]
    values = [f"`{key}={value}`" for key, value in written_settings(settings).items() if differs(settings, key)]
    section, *begins = LEARNED[name]
    names = list(ALGORITHMS)
    following = [f"[`{other}`]({other}.md)" for other in names[names.index(name) + 1 :]]
    return PAGE.format(
        made=MADE,
        name=name,
        text=paragraphs(text),
        paper=linked(markdown(references)),
        function=function.__name__,
        own=f"Its own settings are `{function.__name__}({', '.join(own)})`. " if own else "",
        tasks=" and ".join(f"`{type(task).__name__}`" for task in settings.tasks),
        values=", ".join(values) or "none",
        learned=table(section, begins),
        anchor=section.lower().replace(" ", "-"),
        next=[*following, "[results](../results.md)"][0],
        **costs(settings),
    )


def costs(settings: Settings) -> dict[str, str]:
    """Measures a step of an algorithm with one run on the LeNet-5 of the tests."""
    sys.path.insert(0, str(DOCS.parent / "tests"))
    from helpers.models import MODELS

    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (settings.batch_size, 28, 28, 1)).astype(np.int8)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "run.zolog")
        y = rng.integers(0, 10, settings.batch_size)
        trainer = Trainer(MODELS["lenet5"](), settings)
        trainer.fit(x, y, steps=1, keep="last", log=log)
        if trainer.measured_rate is not None:  # once a run, and no part of a step's cost
            given = dataclasses.replace(settings, learning_rate=trainer.measured_rate)
            trainer = Trainer(MODELS["lenet5"](), given)
            trainer.fit(x, y, steps=1, keep="last", log=log, replace=True)
        if is_snapshot_log(log):
            weights = Log.read(log).weight_bytes
            logged = f"{SNAPSHOT_RECORD_BYTES} bytes to the log, and {weights:,} bytes of weights"
            logged += f" every {settings.steps_between_snapshots} steps"
        else:
            logged = f"{Log.read(log).whole_bytes - SEED_LOG_HEADER_BYTES} bytes to the log"
    trained = trained_layers(trainer.model, settings)
    return {
        "share": f"{100 * trained.weights / trained.of_weights:.0f} %",
        "batch": f"{settings.batch_size}",
        "equivalents": f"{trainer.equivalents:,.0f}",
        "each": f"{trainer.equivalents / settings.batch_size:.2f}",
        "kept": workspace(settings),
        "logged": logged,
    }


def workspace(settings: Settings) -> str:
    """Computes what a device keeps in a step in addition to the arena."""
    from helpers.models import MODELS

    zo = inject_for(load_model(MODELS["lenet5"]()), settings, batch=1)
    device = device_model(zo, plan_run(zo, settings, steps=1, samples=1))
    return f"{workspace_bytes(zo, read_metadata(zo), device):,} bytes" if device.plan.tasks else "nothing"


def table(section: str, begins: list[str]) -> str:
    """Selects rows from the tables of a section of docs/results.md, without columns that stay empty."""
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for lines in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, rule, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in lines.splitlines()]
        taken = [row for row in rows if any(row[0].startswith(begin) for begin in begins)]
        if taken:
            columns = [i for i in range(len(head)) if any(row[i] for row in taken)]
            chosen = [[row[i] for i in columns] for row in (head, rule, *taken)]
            return "\n".join(f"| {' | '.join(row)} |" for row in chosen) + "\n"
    raise LookupError(f"{section}: {begins}")


def differs(settings: Settings, name: str) -> bool:
    """Returns True if a setting, named as on the command line, differs from the default of its class."""
    full = ".".join(filter(None, resolve(settings, name.replace("-", "_"))))
    return bool(value_of(settings, full) != value_of(Settings(), full))


def settings_section(task: str, kind: type[Any]) -> str:
    """Lists the fields of a class of settings by their names on the command line."""
    text, _, rest = (inspect.getdoc(kind) or "").partition("\n\nAttributes:\n")
    described = attributes(rest.partition("\n\nRaises:")[0])
    head = "| setting | default | meaning |\n| --- | --- | --- |\n"
    rows = [f"\n### {kind.__name__}\n\n{paragraphs(text)}\n{head}"]
    for field in dataclasses.fields(kind):
        if field.name not in NOT_SET:
            name = f"{task}.{field.name}".lstrip(".").replace("_", "-")
            value = written(value_of(Settings(), name.replace("-", "_")), name)
            rows.append(f"| `{name}` | {value} | {described[field.name]} |\n")
            for part in PARTS:
                if (part.owner, part.whole) == (task, field.name) and part.name != part.whole:
                    name = f"{task}.{part.name}".lstrip(".").replace("_", "-")
                    value = written(part.default)
                    rows.append(f"| `{name}` | {value} | {of_part(part)} |\n")
    return "".join(rows)


def of_part(part: Part) -> str:
    """Returns the description of a field of a rule or schedule."""
    kind = next(k for k in (Step, Gradient, Bits) if part.field in k.__dataclass_fields__)
    return attributes((inspect.getdoc(kind) or "").partition("Attributes:\n")[2])[part.field]


def paragraphs(text: str) -> str:
    """Converts a docstring's paragraphs to Markdown. Indented paragraphs are equations."""
    equation = "```text\n{}\n```\n"
    return "\n".join(
        equation.format(inspect.cleandoc(p)) if p.startswith("    ") else markdown(p) + "\n" for p in text.split("\n\n")
    )


def linked(text: str) -> str:
    """Links a reference's arXiv number or DOI to the paper."""
    text = re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text)
    return re.sub(r"doi (10\.[\d./]+)", r"[doi \1](https://doi.org/\1)", text)


def attributes(section: str) -> dict[str, str]:
    """Reads a docstring's section "Attributes", as Markdown by name."""
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: markdown(text).replace("|", "\\|") for name, text in found}


def markdown(text: str) -> str:
    """Joins a paragraph of a docstring into one line, with its asterisks escaped for Markdown."""
    return " ".join(text.split()).replace("*", "\\*")


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
