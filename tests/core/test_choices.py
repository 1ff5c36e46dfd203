"""Which measurement of a run is the best."""

from hypothesis import example, given
from hypothesis import strategies as st

from tflm_zo.core import Measurement, best_of

# Few different values, so that there are equals, and the ends of a record's range.
_LOSSES = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**31, 2**32, 2**63 - 1])
_CORRECT = st.sampled_from([0, 1, 2, 3, 2**31, 2**32 - 1])


@given(st.lists(st.tuples(_LOSSES, _CORRECT), max_size=8))
@example([(2**40, 3), (5, 2), (9, 3), (9, 4)])  # loses loss and accuracy; then two as good as each other
@example([(7, 0), (6, 0), (6, 0)])  # the mean squared error
def test_the_best_one(values: list[tuple[int, int]]) -> None:
    """Compares with the definition: no candidate has a smaller loss, and none before it the same."""
    measurements = [Measurement(3 * i, 5, loss, correct, 7) for i, (loss, correct) in enumerate(values)]
    best = best_of(iter(measurements))
    if best is None:
        assert not measurements
        return
    allowed = [m for m in measurements if m.correct >= values[0][1]]
    assert allowed[0] is measurements[0] and any(best is m for m in allowed)
    assert all(best.loss_sum <= m.loss_sum for m in allowed)
    assert all(best.loss_sum < m.loss_sum for m in allowed if m.step < best.step)
