"""A ZO model that does not perturb has the outputs of the original, bit for bit, with any cuts."""

from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from helpers.examples import REAL_MODELS
from helpers.injection import inject_all
from helpers.interpreters import RUNTIMES, random_inputs, require, run_plain
from helpers.models import MODELS
from tflm_zo import Model, core, load_model
from tflm_zo.converters import possible_cuts, read_metadata, set_batch
from tflm_zo.runtime import Runtime, load

ALL_MODELS = [pytest.param(make, id=name) for name, make in MODELS.items()] + REAL_MODELS


def _inputs(runtime: Runtime, seed: int) -> list[Any]:
    count = len(runtime.inputs)
    return random_inputs([runtime.input_details(i) for i in range(count)], seed)


def _assert_equal(actual: list[Any], expected: list[Any]) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("update_bits", [8, 16])
@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("make", ALL_MODELS)
def test_whole_model(make: Any, name: str, update_bits: int, batch: int) -> None:
    require(name)
    original = make()
    runtime = load(inject_all(original, headroom=0, batch=batch, update_bits=update_bits), name)
    plain = set_batch(load_model(original), batch).to_bytes()
    for seed in range(3):
        inputs = _inputs(runtime, seed)
        runtime.set_inputs(*inputs)
        runtime.invoke()
        outputs = runtime.outputs()
        _assert_equal(outputs, run_plain(plain, name, inputs))
        assert any(np.unique(o).size > 1 for o in outputs), "constant outputs prove nothing"


@pytest.mark.parametrize("make", ALL_MODELS)
def test_whole_model_with_bare_reference_kernels(make: Any) -> None:
    """The delegate without its FULLY_CONNECTED changes nothing: LiteRT's kernels see the same tensors."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate

    original = make()
    zo = inject_all(original, headroom=0)
    interpreter = Interpreter(
        model_content=zo.to_bytes(),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_delegates=[load_delegate(str(core.library_path()))],
    )
    interpreter.allocate_tensors()
    ports = zip(read_metadata(zo).segments[0].inputs, interpreter.get_input_details(), strict=True)
    inputs = []
    for port, details in ports:
        value = np.zeros(details["shape"], details["dtype"])
        if port.role == "input":
            value = random_inputs([(details["shape"], details["dtype"])], 1)[0]
            inputs.append(value)
        interpreter.set_tensor(details["index"], value)
    interpreter.invoke()
    expected = run_plain(original, "litert-builtin-ref", inputs)
    details = interpreter.get_output_details()[: len(expected)]
    _assert_equal([interpreter.get_tensor(d["index"]) for d in details], expected)


def _cuts(model: bytes, segments: int, limit: int) -> list[tuple[str, ...]]:
    """Yields all ways to cut into so many segments, thinned out evenly if there are more than the limit."""
    ways = list(combinations(possible_cuts(load_model(model)), segments - 1))
    step = max(1, len(ways) // limit)
    return ways[::step]


@lru_cache(64)  # the runtimes of a model come one after the other
def _cut(make: Any, cuts: tuple[str, ...]) -> Model:
    return inject_all(make(), headroom=0, cuts=cuts)


@pytest.mark.parametrize("limit", [3, pytest.param(10**9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("make", ALL_MODELS)
def test_cut_into_segments(make: Any, name: str, limit: int) -> None:
    require(name)
    original = make()
    whole = load(inject_all(original, headroom=0), name)
    inputs = _inputs(whole, 0)
    others = _inputs(whole, 1)
    expected = run_plain(original, name, inputs)
    checked = 0
    for segments in (2, 3, 4):
        for cuts in _cuts(original, segments, limit):
            runtime = load(_cut(make, cuts), name)
            count = runtime.segment_count
            assert count >= segments  # tensors that cross a cut become boundaries, too
            runtime.set_inputs(*inputs)
            runtime.invoke()
            _assert_equal(runtime.outputs(), expected)
            entered = {k: runtime.boundary(k) for k in range(1, count)}

            # Another run in between, then only the suffix, from each boundary.
            runtime.set_inputs(*others)
            runtime.invoke()
            runtime.set_inputs(*inputs)
            for k in range(1, count):
                runtime.invoke(start=k, boundary={j: entered[j] for j in runtime.metadata.entering(k)})
                late = {i for s in runtime.segments[k:] for i in s.outputs}
                for i in late:
                    np.testing.assert_array_equal(runtime.outputs()[i], expected[i])
            checked += 1
    if checked == 0:
        pytest.skip("the model has no single-tensor boundary")


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in MODELS.items()])
def test_checksum_does_not_depend_on_cuts(make: Any) -> None:
    original = make()
    sums = set()
    for cuts in [(), *[(cut,) for cut in possible_cuts(load_model(original))]]:
        runtime = load(inject_all(original, cuts=cuts), "litert")
        runtime.invoke(runtime.command(loss=False, checksum=True))
        sums.add(runtime.status().checksum)
    assert len(sums) == 1
