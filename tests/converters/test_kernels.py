"""Graphs that pass the check: TFLM prepares and runs them, and LiteRT gives the same bits or refuses them."""

from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.examples import slow_but
from helpers.interpreters import require
from helpers.kernel_runs import KernelRuns
from helpers.models.single_operators import NOT_IN_LITERT, SINGLE_OPERATORS, Change, apply, changes
from tflm_zo.converters import ConversionError, load_model
from tflm_zo.converters.check_graph import check_graph
from tflm_zo.converters.check_kernel import MOST_CLASSES
from tflm_zo.converters.kernels import KERNELS
from tflm_zo.converters.model import Operator
from tflm_zo.converters.model.schema import OPERATOR_NAMES
from tflm_zo.runtime.litert import why_not_exact

TAKEN = sorted(OPERATOR_NAMES[number] for number in KERNELS)


@pytest.fixture(scope="module")
def runs() -> Iterator[KernelRuns]:
    require("tflm")
    runs = KernelRuns()
    yield runs
    runs.close()


def changed(name: str, *wanted: Change) -> tuple[bytes, Operator] | None:
    """Makes a change. Returns the model, or None if the check refuses it or the change is impossible."""
    model = load_model(SINGLE_OPERATORS[name])
    try:
        for change in sorted(wanted, key=lambda c: c.what != "rank"):
            apply(model, change)
        data = model.to_bytes()
        model = load_model(data)
        check_graph(model.subgraphs[0])
    except (ConversionError, AttributeError, TypeError, IndexError):
        return None
    return data, model.subgraphs[0].operators[0]


def holds(runs: KernelRuns, name: str, *wanted: Change) -> str:
    """Returns the error of a model that passes the check, or ""."""
    taken = changed(name, *wanted)
    if taken is None:
        return ""
    tflm = runs.run(taken[0], "tflm")
    if tflm.reached != "invoked":
        return f"TFLM {tflm.reached}"
    if name in NOT_IN_LITERT or why_not_exact(taken[1]) is not None:
        return ""
    litert = runs.run(taken[0], "litert")
    if litert.reached in ("refused", "prepared"):
        return ""
    return "" if litert == tflm else f"LiteRT {litert.reached}, other bits"


@pytest.mark.parametrize("name", slow_but(TAKEN[::3], TAKEN))
def test_one_change(runs: KernelRuns, name: str) -> None:
    model = load_model(SINGLE_OPERATORS[name])
    assert changed(name) is not None or not model.subgraphs[0].inputs
    op = model.subgraphs[0].operators[0]
    wrong = {str(change): reason for change in changes(op) if (reason := holds(runs, name, change))}
    assert not wrong


@given(st.sampled_from(TAKEN), st.data())
def test_several_changes(runs: KernelRuns, name: str, data: st.DataObject) -> None:
    op = load_model(SINGLE_OPERATORS[name]).subgraphs[0].operators[0]
    every = st.sampled_from([c for c in changes(op) if c.value not in (1e-6, 1e6)])
    some = data.draw(st.lists(every, min_size=2, max_size=3, unique_by=lambda c: c[:3]))
    assume(changed(name, *some) is not None)
    assert not holds(runs, name, *some)


@pytest.mark.parametrize("name", TAKEN)
def test_equal_activations(runs: KernelRuns, name: str) -> None:
    for value in (-128, -127, 0, 1, 127):
        tflm, litert = (runs.run(SINGLE_OPERATORS[name], runtime, value) for runtime in ("tflm", "litert"))
        assert tflm.reached == "invoked"
        assert litert.reached in ("refused", "prepared") or litert == tflm


def test_softmax_of_more_values_than_kernels_take(runs: KernelRuns) -> None:
    for depth, reached in ((MOST_CLASSES, "invoked"), (MOST_CLASSES + 1, "died")):
        model = load_model(SINGLE_OPERATORS["SOFTMAX"])
        op = model.subgraphs[0].operators[0]
        model.subgraphs[0].inputs[0].shape = op.outputs[0].shape = (1, depth)
        assert runs.run(model.to_bytes(), "tflm", 0).reached == reached
        if reached == "invoked":
            check_graph(model.subgraphs[0])
        else:
            with pytest.raises(ConversionError, match=f"at more than {MOST_CLASSES} equal values"):
                check_graph(model.subgraphs[0])
