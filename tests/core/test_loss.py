"""Fixed-point losses against float64. The bound is 1e-3; `pytest -s` prints the measured errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import core
from helpers.oracle import fixed_losses as fixed
from helpers.oracle import losses as oracle
from tflm_zo.core import NativeError, Status, library, logit_scale
from tflm_zo.core.loader import structs

BOUND = 1e-3
UNIT = 2.0**-16

# classes -> vectors: more than a million in all.
VECTORS = {
    2: 320_000,
    3: 200_000,
    5: 160_000,
    10: 200_000,
    12: 80_000,
    35: 40_000,
    100: 60_000,
    257: 30_000,
    1000: 20_000,
}
SCALES = [2.0**-e for e in range(9)] + [0.0041, 0.0173, 0.0627, 0.1, 0.1234, 0.2718, 0.6667, 0.9]


def logit_batches():
    """Draws (logits, labels, scale): every class count with every scale, wide and narrow ranges of logits."""
    rng = np.random.default_rng(1)
    for classes, total in VECTORS.items():
        for part, scale in enumerate(SCALES):
            count = -(-total // len(SCALES))
            width = (256, 40, 8)[part % 3]
            low = rng.integers(-128, 129 - width, (count, 1))
            logits = (low + rng.integers(0, width, (count, classes))).astype(np.int8)
            yield logits, rng.integers(0, classes, count).astype(np.int32), scale


def test_a_million_random_vectors():
    worst, vectors, differences = 0.0, 0, 0
    for logits, labels, scale in logit_batches():
        fixed = core.cross_entropy(logits, labels, scale)
        exact = oracle.cross_entropy(logits, labels, scale)
        assert fixed.min() >= 0
        worst = max(worst, float(np.abs(fixed * UNIT - exact).max()))
        vectors += len(labels)
        # Training uses the sign of the difference of two losses.
        difference = np.diff(exact)
        clear = np.abs(difference) > 2e-3
        differences += int(clear.sum())
        assert (np.sign(np.diff(fixed.astype(np.int64)))[clear] == np.sign(difference)[clear]).all()
    print(f"\ncross-entropy: {vectors} vectors, largest error {worst:.2e}; {differences} differences")
    assert vectors >= 1_000_000
    assert worst < BOUND


def adversarial(classes):
    rows = [np.full(classes, v) for v in (-128, -1, 0, 127)]  # all equal
    for hot in (0, classes // 2, classes - 1):
        for high, low in ((127, -128), (-127, -128), (1, 0)):
            row = np.full(classes, low)
            row[hot] = high  # one-hot
            rows.append(row)
            row = np.full(classes, high)
            row[hot] = low  # one-cold
            rows.append(row)
    for gap in (1, 2, 100, 255):
        row = np.full(classes, 127 - gap)
        row[[0, -1]] = 127  # a tie of two
        rows.append(row)
    ramp = np.linspace(-128, 127, classes).round()
    return np.array([*rows, ramp, ramp[::-1]]).astype(np.int8)


@pytest.mark.parametrize("classes", [2, 3, 10, 63, 64, 65, 1000, 2000])
def test_adversarial_vectors(classes):
    logits = adversarial(classes)
    worst = 0.0
    for scale in (2.0**-20, 2.0**-12, *SCALES, 3.7, 16.0, 64.0):
        for label in {0, 1, classes // 2, classes - 1}:
            labels = np.full(len(logits), label, np.int32)
            fixed = core.cross_entropy(logits, labels, scale) * UNIT
            worst = max(worst, float(np.abs(fixed - oracle.cross_entropy(logits, labels, scale)).max()))
    print(f"\ncross-entropy, {classes} classes, adversarial: largest error {worst:.2e}")
    assert worst < BOUND


EACH_LOSS = pytest.mark.parametrize("loss", [core.cross_entropy, core.floor_log2_loss])


# Unlabelled, certain, uncertain, and beyond the exponentials' resolution; from oracle.fixed_losses.
FEW = np.array([[-128, 127, 0, 5], [1, 1, 1, 1], [-3, -3, -4, -60], [100, 90, -128, 127]], np.int8)
FEW_LABELS = np.array([0, 3, 2, -1], np.int32)
GOLDEN = {
    2.0**-20: (
        [90860, 90852, 90851, 0],
        [[-24577, 8193, 8192, 8192], [8192, 8192, 8192, -24576], [8192, 8192, -24576, 8192], [0, 0, 0, 0]],
    ),
    0.0173: (
        [303442, 90852, 80479, 0],
        [[-32449, 26332, 2926, 3190], [8192, 8192, 8192, -24576], [9764, 9764, -23171, 3642], [0, 0, 0, 0]],
    ),
    0.1: (
        [1671169, 90852, 76515, 0],
        [[-32767, 32767, 0, 0], [8192, 8192, 8192, -24576], [11268, 11268, -22572, 37], [0, 0, 0, 0]],
    ),
    64.0: (
        [1069547520, 90852, 4239730, 0],
        [[-32767, 32767, 0, 0], [8192, 8192, 8192, -24576], [16384, 16384, -32767, 0], [0, 0, 0, 0]],
    ),
}


@pytest.mark.parametrize("scale", GOLDEN)
def test_bits_never_change(scale):
    losses, errors = GOLDEN[scale]
    for implementation in (core, fixed):
        assert implementation.cross_entropy(FEW, FEW_LABELS, scale).tolist() == losses
        assert implementation.cross_entropy_error(FEW, FEW_LABELS, scale).tolist() == errors


def test_is_its_specification():
    """Compares bit for bit with the header's formula in integers: every class count, scale and width of logits."""
    for logits, labels, scale in logit_batches():
        some = slice(None, None, -(-len(labels) // (1 + 40 // logits.shape[1])))
        logits, labels = np.ascontiguousarray(logits[some]), labels[some].copy()
        found = core.cross_entropy(logits, labels, scale)
        np.testing.assert_array_equal(found, fixed.cross_entropy(logits, labels, scale))
        errors = core.cross_entropy_error(logits, labels, scale)
        np.testing.assert_array_equal(errors, fixed.cross_entropy_error(logits, labels, scale))
        assert np.abs(errors * 2.0**-15 - oracle.cross_entropy_error(logits, labels, scale)).max() < 2.0**-14


@given(st.lists(st.integers(-128, 127), min_size=2, max_size=12), st.integers(0, 2**32), st.floats(2.0**-20, 64.0))
def test_any_vector_is_its_specification(logits, label, scale):
    row, labels = np.array([logits], np.int8), np.array([label % (len(logits) + 1) - 1], np.int32)
    assert core.cross_entropy(row, labels, scale) == fixed.cross_entropy(row, labels, scale)
    assert np.array_equal(core.cross_entropy_error(row, labels, scale), fixed.cross_entropy_error(row, labels, scale))


def test_other_losses_bits_never_change():
    targets = np.repeat(np.array([[0], [3], [-128], [127]], np.int8), 4, 1)
    found = core.mean_squared_error(FEW, targets, 0.05)
    exact = oracle.mean_squared_error(FEW, targets, 0.05) * 2**16
    assert found.tolist() == [1332756, 655, 2099200, 2749358]
    np.testing.assert_allclose(found, exact, atol=1)
    several = np.tile(np.array([0, 1, 0, 1], np.int32), (4, 1))
    assert core.binary_cross_entropy(FEW, several, 0.1, -3).tolist() == [80311, 186912, 506856, 675029]


@pytest.mark.parametrize("label", [-1, 0, 1])
@pytest.mark.parametrize("zero_point", [-128, -5, 0, 127])
def test_binary_cross_entropy_of_every_logit(zero_point, label):
    """Sums two outputs: every logit with every other label, and from the other end with this one."""
    logits = np.stack([np.arange(-128, 128), np.arange(127, -129, -1)], 1).astype(np.int8)
    labels = np.stack([np.arange(256) % 3 - 1, np.full(256, label)], 1).astype(np.int32)
    for scale in (*SCALES, 64.0):
        found = core.binary_cross_entropy(logits, labels, scale, zero_point) * UNIT
        exact = oracle.binary_cross_entropy(logits, labels, scale, zero_point)
        assert np.abs(found - exact).max() < 2 * BOUND


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(-128, 127), st.floats(2.0**-20, 64.0))
def test_error_of_a_binary_cross_entropy(seed, outputs, zero_point, scale):
    """Compares bit for bit with the header, and within a unit with float64."""
    rng = np.random.default_rng(seed)
    logits = rng.integers(-128, 128, (4, outputs)).astype(np.int8)
    labels = rng.integers(-1, 2, (4, outputs)).astype(np.int32)
    found = core.binary_cross_entropy_error(logits, labels, scale, zero_point)
    expected = fixed.binary_cross_entropy_error(logits, labels, scale, zero_point)
    np.testing.assert_array_equal(found, expected)
    exact = oracle.binary_cross_entropy_error(logits, labels, scale, zero_point)
    assert np.abs(found * 2.0**-15 - exact).max() <= 2.0**-14


@given(st.integers(1, 700), st.floats(2.0**-10, 4.0), st.integers(0, 2**32 - 1), st.sampled_from([256, 20, 1]))
def test_mean_squared_error(elements, scale, seed, width):
    rng = np.random.default_rng(seed)
    outputs = rng.integers(-128, -128 + width, (4, elements)).astype(np.int8)
    targets = rng.integers(-128, 128, (4, elements)).astype(np.int8)
    exact = oracle.mean_squared_error(outputs, targets, scale)
    fixed = core.mean_squared_error(outputs, targets, scale)
    saturated = exact >= 32768 - UNIT
    assert (fixed[saturated] == 2**31 - 1).all()
    error = np.abs(fixed * UNIT - exact)[~saturated]
    assert (error <= 0.5001 * UNIT + exact[~saturated] * 2.0**-29).all()  # rounded to nearest


def test_mean_squared_error_of_the_largest_tensor():
    outputs = np.full((1, 2**20), 127, np.int8)
    targets = np.full((1, 2**20), -128, np.int8)
    for scale in (2.0**-10, 0.37, 0.7):
        fixed = core.mean_squared_error(outputs, targets, scale)[0] * UNIT
        assert fixed == pytest.approx((255 * scale) ** 2, rel=1e-6, abs=UNIT)
    assert core.mean_squared_error(outputs, targets, 1.0)[0] == 2**31 - 1
    assert core.mean_squared_error(outputs, outputs, 1.0)[0] == 0


@EACH_LOSS
def test_unlabelled_samples_have_no_loss(loss):
    logits = np.random.default_rng(4).integers(-128, 128, (6, 5)).astype(np.int8)
    labels = np.array([0, -1, 2, -1, 4, -1], np.int32)
    losses = loss(logits, labels, 0.1)
    assert (losses[1::2] == 0).all()
    assert (losses[::2] > 0).all()


@pytest.mark.parametrize(
    ("function", "limit", "element", "bad"),
    [
        ("zo_cross_entropy_s8", (), np.int32, [5, -2, 2**31 - 1, -(2**31)]),
        ("zo_floor_log2_loss_s8", (), np.int32, [5, -2, 2**31 - 1, -(2**31)]),
        ("zo_cross_entropy_error_s8", (), np.int16, [5, -2, 2**31 - 1, -(2**31)]),
        ("zo_binary_cross_entropy_s8", (0,), np.int32, [2, -2, 2**31 - 1, -(2**31)]),
        ("zo_binary_cross_entropy_error_s8", (0,), np.int16, [2, -2, 2**31 - 1, -(2**31)]),
    ],
)
def test_bad_labels_leave_the_output_alone(function, limit, element, bad):
    """Refuses even if the last of many samples has one."""
    logits = np.zeros((50, 5), np.int8)
    binary = function.startswith("zo_binary_cross_entropy")
    for value in bad:
        labels = np.zeros((50, 5) if binary else 50, np.int32)
        labels.reshape(-1)[-1] = value
        result = np.full((50, 5), 77, element)
        arguments = (*limit, logit_scale(0.1), labels.ctypes.data, result.ctypes.data)
        sizes = (50, 1, 5) if function == "zo_cross_entropy_s8" else (50, 5)
        status = getattr(library(), function)(logits.ctypes.data, *sizes, *arguments)
        assert status == Status.LABEL
        assert (result == 77).all()


def test_bad_label_is_an_error_with_a_name():
    with pytest.raises(NativeError, match="label") as error:
        core.cross_entropy(np.zeros((2, 3), np.int8), np.array([0, 3], np.int32), 0.1)
    assert error.value.status is Status.LABEL


@pytest.mark.parametrize("raw", [(0, 0), (15, 15), (2**31, 2**30 + 1), (100, 1000)])
def test_bad_scales(raw):
    logits, labels, losses = np.zeros((1, 2), np.int8), np.zeros(1, np.int32), np.full(1, 77, np.int32)
    scale = structs.zo_logit_scale(*raw)
    address = logits.ctypes.data
    status = library().zo_cross_entropy_s8(address, 1, 1, 2, scale, labels.ctypes.data, losses.ctypes.data)
    assert status == Status.ARGUMENT
    assert losses[0] == 77
