"""The names of the package, and how settings are written with them."""

from __future__ import annotations

import ast
import dataclasses
import pkgutil
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tflm_zo as zo
from tflm_zo.cli import app
from tflm_zo.converters.settings import InjectChanges
from tflm_zo.training.algorithms import RunSettings

#: Names by the command that does the same.
COMMANDS = {
    "algorithms": ("algorithms",),
    "collect": ("collect", "open_port"),
    "convert": ("convert", "quantize"),
    "demo": (),
    "deploy": ("deploy", "open_port"),
    "calibrate": ("calibrate",),
    "drift": ("drift",),
    "evaluate": ("evaluate",),
    "export": ("export_model",),
    "firmware": ("generate_firmware",),
    "gateway": ("fleet.Gateway",),
    "inject": ("inject",),
    "inspect": ("load_model",),
    "plan": ("plan",),
    "recalibrate": ("recalibrate",),
    "replay": ("replay_log", "export_model"),
    "report": ("write_report",),
    "train": ("adapt", "Trainer.fit"),
    "verify": ("compare_runtimes",),
}


def fresh(program: str) -> str:
    """Runs a program in an interpreter of its own and returns its output."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_name_is_there() -> None:
    assert len(set(zo.__all__)) == len(zo.__all__)
    assert set(zo.__all__) <= set(dir(zo))
    for name in zo.__all__:
        assert getattr(zo, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Trianer'"):
        zo.Trianer  # type: ignore[attr-defined]  # noqa: B018


def test_every_command_has_a_name_in_python() -> None:
    commands = app.registered_commands
    named = {command.name or command.callback.__name__.replace("_", "-") for command in commands if command.callback}
    assert named == COMMANDS.keys()
    for name in [name for names in COMMANDS.values() for name in names]:
        assert callable(attrgetter(name)(zo)) or name == "algorithms"


def test_type_checkers_see_the_names_that_are_imported() -> None:
    """Type checkers read imports that no interpreter runs, the interpreter a table that they do not read."""
    seen: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(Path(zo.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            seen.setdefault(node.module or "", set()).update(name.name for name in node.names)
    assert seen[""] == {module.name for module in pkgutil.iter_modules(zo.__path__)} & set(zo.__all__)
    version = seen.pop("_version")
    assert seen == {home: set(names.split()) for home, names in zo._NAMES.items()}
    assert version.union(*seen.values()) == set(zo.__all__)


def test_importing_imports_nothing_else() -> None:
    """Imports neither NumPy nor the library, so that the command line answers at once."""
    wanted = "import sys; before = set(sys.modules); import tflm_zo; print(sorted(set(sys.modules) - before))"
    standard = sys.stdlib_module_names
    there = [name for name in ast.literal_eval(fresh(wanted)) if name.partition(".")[0] not in standard]
    assert there == ["tflm_zo", "tflm_zo._version"]


@pytest.mark.slow
def test_each_package_is_imported_alone() -> None:
    """Imports each package alone: none needs another to have been imported before."""
    fresh(
        "import os\n"
        f"for name in {[module.name for module in pkgutil.iter_modules(zo.__path__)]!r}:\n"
        "    if not (child := os.fork()):\n"
        "        __import__(f'tflm_zo.{name}')\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0, name\n"
    )


def test_no_module_of_training_imports_one_for_its_types_alone() -> None:
    """That hides a cycle: who calls and who is called know each other."""
    for path in sorted((Path(zo.__file__).parent / "training").glob("*.py")):
        guarded = [
            node
            for branch in ast.walk(ast.parse(path.read_text()))
            if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
            for node in branch.body
            if isinstance(node, ast.ImportFrom) and node.level
        ]
        assert not guarded, f"{path.name}: {[ast.unparse(node) for node in guarded]}"


def test_settings_are_tasks() -> None:
    nodes = zo.Settings(tasks=(zo.Nodes(queries=4),), batch_size=16, learning_rate=1.0)
    elastic = zo.Settings(tasks=(zo.Weights(perturbation=zo.Gaussian(1)), zo.Exact(last=2)))
    spsa = zo.Settings(tasks=(zo.Weights(),))
    # Only weight perturbation alone has a log of seeds.
    assert [s.is_layerwise for s in (nodes, elastic, spsa)] == [True, True, False]
    assert zo.algorithms.weight().tasks == spsa.tasks
    assert zo.Settings().tasks == zo.algorithms.node().tasks


def test_distributions_are_written_as_they_are_made() -> None:
    assert repr(zo.Rademacher(2)) == "Rademacher(2)"
    assert repr(zo.SparseUniform(15, 0.33)) == "SparseUniform(15, 0.328)"  # in 256ths
    assert repr(zo.Gaussian(1)) == "Gaussian(1)"
    assert repr(zo.Gaussian(0.5)) == "Gaussian(0.5)"
    for mu in (1, 2, 57, 113, 4096, 65535):
        made = zo.Distribution.of(SimpleNamespace(kind=zo.Gaussian.kind, mu=mu, p_zero=0))
        assert isinstance(made, zo.Gaussian) and zo.Gaussian(made.std) == made
    assert repr(zo.Coordinate(3)) == "Coordinate(3)"
    assert len({zo.Gaussian(1), zo.Gaussian(1.0), zo.Gaussian(2)}) == 2
    assert len({zo.Rademacher(2), zo.Rademacher(2), zo.Coordinate(2)}) == 2


def test_training_needs_no_framework() -> None:
    modules = "{'tensorflow', 'keras', 'matplotlib'} & set(sys.modules)"
    assert fresh(f"import sys, tflm_zo as zo; zo.Trainer; print({modules})") == "set()"


def test_what_is_misspelt_is_refused() -> None:
    """Refuses in mypy, too: ``make lint`` checks this file, in which an ignore that ignores nothing is an
    error."""
    with pytest.raises(zo.SettingsError, match="rule"):
        zo.Weights(rule="normalized")  # type: ignore[arg-type]
    with pytest.raises(zo.SettingsError, match="rule"):
        zo.Exact(rule="norm")  # type: ignore[arg-type]
    with pytest.raises(zo.SettingsError, match="schedule"):
        zo.Settings(schedule="cosin")  # type: ignore[arg-type]
    with pytest.raises(zo.SettingsError, match="estimator"):
        zo.algorithms.node(estimator="antithetical")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="batchsize"):
        zo.algorithms.node(batchsize=16)  # type: ignore[call-arg]
    with pytest.raises(zo.ConversionError, match="loss"):
        zo.InjectSettings(loss="crossentropy")
    with pytest.raises(zo.ConversionError, match="loss_over"):
        zo.InjectSettings(loss_over="mean")  # type: ignore[arg-type]
    with pytest.raises(zo.ConversionError, match="head_room"):
        zo.inject(b"", head_room=2)  # type: ignore[call-arg]


def test_algorithms_take_what_settings_have() -> None:
    fields = {field.name for field in dataclasses.fields(zo.Settings)}
    assert RunSettings.__annotations__.keys() == fields - {"tasks", "algorithm"}


def test_inject_takes_what_its_settings_have() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(zo.InjectSettings)}
    given = {name: kind.__forward_arg__ for name, kind in InjectChanges.__annotations__.items()}
    assert given == fields


def test_integers_of_numpy_are_integers() -> None:
    given = zo.algorithms.node(batch_size=np.int64(16), seed=np.uint32(7))
    assert given == zo.algorithms.node(batch_size=16, seed=7)
    assert type(given.batch_size) is int
    assert zo.Rademacher(np.uint8(2)) == zo.Rademacher(2)
    assert zo.Weights(queries=np.int32(4)) == zo.Weights(queries=4)
