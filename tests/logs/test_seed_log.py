"""The seed log: its bytes by docs/file-formats.md, and the usable part of a damaged one."""

import hashlib
import struct
import zlib
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.oracle.scalar import query_seed
from tflm_zo.converters import load_model
from tflm_zo.core import Control, CSettings, Measurement, SeedLogHeader, SparseUniform, StepRecord
from tflm_zo.logs import IncompleteHeaderError, Log, LogError, LogWriter, fingerprint

MARK = bytes(range(100, 116))
SETTINGS = (0xFFFFFFFE, 9, 11, 2, 1, 3, 1, 2, None, 65536, 7, 1, 2, 3, 4, 5, 6, 0)


def integers(**changes) -> CSettings:
    distribution = SparseUniform(5, 0.25).struct
    s = CSettings(*(distribution if value is None else value for value in SETTINGS))
    for name, value in changes.items():
        setattr(s, name, value)
    return s


def log_writer(path, control, every=0):
    return LogWriter(path, SeedLogHeader(control.settings, MARK, every))


def write(path, steps, **changes):
    """Writes a log of so many steps; returns the expected content of each record."""
    control = Control(integers(**changes), 100, [])
    writer = log_writer(path, control)
    rng, records = np.random.default_rng(0), []
    while len(records) < steps:
        control.next()
        if control.report(rng.integers(-(2**31), 2**31, control.settings.batch).astype(np.int32)):
            writer.append(partial(StepRecord.write, control))
            square = control.struct.mean_square
            records.append((control.step - 1, control.mean_loss, square, *control.coefficients))
    writer.close()
    return records


def record_bytes(records, before):
    """Returns the bytes of records, each with a checksum that continues that of the one before it."""
    data = b""
    for record in records:
        body = struct.pack(f"<Iiq{len(record) - 3}i", *record)
        data += body + struct.pack("<I", zlib.crc32(body, int.from_bytes((before + data)[-4:], "little")))
    return data


def header_bytes(queries=3, settings=SETTINGS, measure_every=0):
    words = [1 << 24 | 64 << 16 | 5 if value is None else value for value in settings]
    body = b"ZOLOG\r\n\x1a" + struct.pack("<4H", 3, 132, 20 + 4 * queries, queries) + MARK
    body += struct.pack("<24I", *words, 0, 0, 0, 0, 0, measure_every)
    assert len(body) == 128
    return body + struct.pack("<I", zlib.crc32(body))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.zolog"


@pytest.mark.parametrize("word", [127, 1 << 24 | 255 << 16 | 127, 2 << 24 | 65535, 3 << 24 | 1])
def test_the_distribution_of_a_header(word):
    """Reads kind, share of zeros and size, in their bits of the header."""
    settings = tuple(word if value is None else value for value in SETTINGS)
    found = SeedLogHeader.from_bytes(header_bytes(settings=settings))
    assert found is not None
    distribution = found.settings.distribution
    assert (distribution.kind, distribution.p_zero, distribution.mu) == (word >> 24, word >> 16 & 255, word & 65535)


def test_bytes(path):
    records = write(path, 9)
    assert path.read_bytes() == header_bytes() + record_bytes(records, header_bytes())
    log = Log.read(path)
    assert bytes(log.settings) == bytes(integers())
    assert log.fingerprint == MARK
    assert log.steps_of_block(0)[0][0] == SparseUniform(5, 0.25)
    assert (log.losses * 65536).tolist() == [r[1] for r in records]
    assert log.mean_squares.tolist() == [r[2] for r in records]
    assert log.steps["coefficient"].tolist() == [list(r[3:]) for r in records]
    assert log.steps["seed"].tolist() == [[query_seed(0xFFFFFFFE, t, q) for q in range(3)] for t in range(9)]
    assert (log.whole_bytes, log.torn_bytes) == (132 + 9 * 32, 0)
    for steps in (-1, 10):
        with pytest.raises(LogError, match=f"Steps of the log must be in 0..9. Received: {steps}"):
            log.first(steps)


@pytest.mark.parametrize("queries", [1, 32])
def test_sizes(path, queries):
    words = [queries if i == 5 else value for i, value in enumerate(SETTINGS)]
    records = write(path, 4, queries=queries)
    header = header_bytes(queries, words)
    assert path.read_bytes() == header + record_bytes(records, header)
    assert Log.read(path).steps.shape == (4, queries)


def test_truncated_everywhere(path):
    records = write(path, 5)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        if length < 132:
            with pytest.raises(LogError):
                Log.read(path)
            continue
        log = Log.read(path)
        whole = (length - 132) // 32
        assert log.steps["coefficient"].tolist() == [list(r[3:]) for r in records[:whole]]
        assert (log.whole_bytes, log.torn_bytes) == (132 + 32 * whole, (length - 132) % 32)


def test_a_flipped_bit_anywhere(path):
    records = write(path, 3)
    data = path.read_bytes()
    for at in range(len(data)):
        for bit in (0, 7):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            if at < 132:
                with pytest.raises(LogError, match="header is damaged|of an older version"):
                    Log.read(path)
                continue
            log = Log.read(path)
            whole = (at - 132) // 32
            assert log.steps["coefficient"].tolist() == [list(r[3:]) for r in records[:whole]]
            assert log.torn_bytes == 32 * (3 - whole)


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=examples(100))
def test_garbage(tmp_path_factory, tail, header):
    path = tmp_path_factory.mktemp("log") / "x"
    path.write_bytes((header_bytes() if header else b"") + tail)
    if header:
        log = Log.read(path)
        assert (len(log.steps), log.torn_bytes) == (0, len(tail))
    else:
        with pytest.raises(LogError):
            Log.read(path)


def test_records_out_of_order_are_not_of_this_run(path):
    a, b, c = write(path, 3)
    path.write_bytes(header_bytes() + record_bytes([a, c, b], header_bytes()))
    assert len(Log.read(path).steps) == 1


@pytest.mark.parametrize(
    "at, value", [(8, 4), (10, 134), (12, 36), (14, 4)], ids=["version", "header", "record", "queries"]
)
def test_other_formats(path, at, value):
    """Refuses them with a correct checksum."""
    data = bytearray(header_bytes())
    struct.pack_into("<H", data, at, value)
    struct.pack_into("<I", data, 128, zlib.crc32(data[:128]))
    path.write_bytes(data)
    with pytest.raises(LogError):
        Log.read(path)


@pytest.mark.parametrize("queries", [0, 33, 1000, 16000])
def test_impossible_queries(path, queries):
    """Refuses a header with a right checksum that no run can have written."""
    words = [queries if i == 5 else value for i, value in enumerate(SETTINGS)]
    path.write_bytes(header_bytes(queries, words) + bytes(4 * queries + 1000))
    with pytest.raises(LogError):
        Log.read(path)


def test_keep(path):
    control = Control(integers(), 100, [])
    writer = log_writer(path, control)
    sizes = [path.stat().st_size]
    for _ in range(3):
        while True:
            control.next()
            if control.report(np.zeros(2, np.int32)):
                break
        writer.append(partial(StepRecord.write, control))
        sizes.append(path.stat().st_size)
    assert sizes == [132, 164, 196, 228]  # each record is with the operating system at once
    writer.keep(5, 0)
    assert path.stat().st_size == 228
    writer.keep(1, 0)
    writer.close()
    writer.close()
    assert len(Log.read(path).steps) == 1


def test_fingerprint():
    model = inject_all(MODELS["small_cnn"]())
    data = model.to_bytes()
    assert fingerprint(model) == fingerprint(data) == fingerprint(load_model(data))
    assert fingerprint(data) == hashlib.sha256(data).digest()[:16]
    # FIPS 180-4, the example of one block.
    assert fingerprint(b"abc").hex() == "ba7816bf8f01cfea414140de5dae2223"
    assert fingerprint(inject_all(MODELS["small_cnn"](), update_bits=8)) != fingerprint(data)


def test_the_beginning_of_another_kind_of_log_is_not_cut_short(tmp_path):
    """Where a snapshot log was cut is no place for a seed log."""
    path = tmp_path / "log"
    path.write_bytes(b"ZOLOG\r\n\x1a" + bytes([4, 0]) + bytes(80))
    with pytest.raises(LogError) as error:
        Log.read(path, layerwise=False)
    assert not isinstance(error.value, IncompleteHeaderError)
    path.write_bytes(b"ZOLOG\r\n\x1a" + bytes([3, 0]) + bytes(80))
    with pytest.raises(IncompleteHeaderError):
        Log.read(path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_log_of_an_older_version_is_named(path, version):
    path.write_bytes(b"ZOLOG\r\n\x1a" + bytes([version, 0]) + bytes(800))
    for layerwise in (False, True):
        with pytest.raises(LogError, match=f"is a log in format {version}, of an older version of tflm-zo"):
            Log.read(path, layerwise=layerwise)


def test_records_of_an_older_run_do_not_go_on_a_newer_one(path):
    """Ignores records behind a shorter run in the same store, even one for the next step."""
    write(path, 5)
    old = path.read_bytes()
    for changes in ({}, {"run_seed": 77}):
        path.unlink()
        write(path, 2, **({"clip": 9} | changes))
        data = path.read_bytes()
        path.write_bytes(data + old[len(data) :])
        log = Log.read(path)
        assert (len(log.steps), log.torn_bytes) == (2, 3 * 32)


def measured(step, loss):
    return Measurement(step, 7, loss, 3, 0xC0FFEE)


@pytest.mark.parametrize("every", [1, 2, 4, 5, 9, 100])
def test_measurements_stand_among_the_steps(path, every):
    """Checks bytes and offsets against zo_measurement.h; of a log cut anywhere, the complete entries are read."""
    control = Control(integers(steps=9), 100, [])
    writer = log_writer(path, control, every)
    expected, sizes = header_bytes(measure_every=every), []
    losses = {0: 50, 9: -(2**40)}
    for step in range(10):
        if step % every == 0 or step == 9:
            m = measured(step, losses.get(step, 100 - step))
            writer.append(m.to_bytes)
            body = struct.pack("<IIqII", step, 7, m.loss_sum, 3, 0xC0FFEE)
            expected += body + struct.pack("<I", zlib.crc32(body, int.from_bytes(expected[-4:], "little")))
            sizes.append((len(expected), step, True))
        if step == 9:
            break
        while True:
            control.next()
            if control.report(np.full(2, step, np.int32)):
                break
        writer.append(partial(StepRecord.write, control))
        record = step, control.mean_loss, control.struct.mean_square, *control.coefficients
        expected += record_bytes([record], expected)
        sizes.append((len(expected), step + 1, False))
    writer.close()
    assert path.read_bytes() == expected
    log = Log.read(path)
    assert (len(log.steps), log.measure_every, log.whole_bytes) == (9, every, len(expected))
    assert [m.step for m in log.measurements] == [step for _, step, is_one in sizes if is_one]
    assert log.best == measured(9, -(2**40))
    assert log.first(8).best == min(log.measurements[:-1], key=lambda m: m.loss_sum)
    for steps in range(10):
        there = [entry for entry in sizes if entry[1] <= steps]
        assert log.first(steps).whole_bytes == there[-1][0]
        assert len(log.first(steps).measurements) == sum(is_one for _, _, is_one in there)
        path.write_bytes(expected[: there[-1][0]])
        cut, first = Log.read(path), log.first(steps)
        assert (bytes(first.settings), first.fingerprint) == (bytes(cut.settings), cut.fingerprint)
        for name in ("steps", "losses", "mean_squares"):
            np.testing.assert_array_equal(getattr(first, name), getattr(cut, name))
    for cut in range(132, len(expected)):
        path.write_bytes(expected[:cut])
        log = Log.read(path)
        whole = [entry for entry in sizes if entry[0] <= cut]
        assert log.whole_bytes == (whole[-1][0] if whole else 132)
        assert len(log.steps) == (whole[-1][1] if whole else 0)
        assert len(log.measurements) == sum(is_one for *_, is_one in whole)


@pytest.mark.parametrize("field, value", [("steps", 0), ("rate", 2**31), ("stage_p_zero", (0, 2**12))])
def test_settings_that_no_run_has_are_refused(path, field, value):
    """Refuses them with a correct checksum: somebody may have written it to nonsense."""
    data = SeedLogHeader(integers(**{field: value}), MARK, 0).to_bytes()
    path.write_bytes(data + bytes(400))
    with pytest.raises(LogError, match="no seed log of this version, or its header is damaged"):
        Log.read(path)


@pytest.mark.parametrize("record", [(0, 1, -1, 1, 1, 1), (0, 1, 1, 2**31 - 1, 1, 1), (0, 1, 1, 1, -(2**31), 1)])
def test_records_that_no_step_has_end_the_log(path, record):
    header = header_bytes()
    path.write_bytes(header + record_bytes([record], header))
    assert len(Log.read(path).steps) == 0


def test_an_existing_log_is_not_overwritten(path):
    write(path, 2)
    data = path.read_bytes()
    with pytest.raises(FileExistsError):
        write(path, 2)
    assert path.read_bytes() == data
