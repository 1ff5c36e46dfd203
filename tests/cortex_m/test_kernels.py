"""Every kernel of the core gives the bits of the portable C, in one program on an emulated core."""

import pytest

from cortex_m.emulator import (
    CORE_SOURCES,
    CORES,
    HERE,
    EmulatorError,
    add_prefix,
    compile_objects,
    each,
    link,
    missing,
    run,
)

# The functions of perturbations, updates, and rows of gradients and steps.
NAMES = """
zo_add_products zo_apply_row zo_biases zo_coordinate zo_dense_sums zo_perturb
zo_replay_tile zo_row_steps zo_step_gaussian zo_step_signs zo_step_signs_dsp zo_step_signs_mve
zo_stream zo_update
""".split()
SOURCES = [source for source in CORE_SOURCES if source.stem in NAMES]


def program_with_both(core, folder, level, sources=SOURCES, features=()):
    # The compiler's vectorization must not affect the reference either.
    plain = [level, "-DZO_PORTABLE", "-fno-tree-vectorize"]
    portable = compile_objects(core, SOURCES, folder / "portable", plain)
    add_prefix(core, portable, "portable_")
    own = compile_objects(core, [HERE / "kernels_test.c", *sources], folder / "own", [level, *features])
    return link(core, [*own, *portable], folder / "kernels_test")


# Loops differ if sizes are optimized; M0+, M3 (whose kernels RISC-V has, too), the DSP extension and
# vectors have kernels of their own.
@pytest.mark.parametrize(
    ("name", "level"),
    [
        *each(CORES, "-O2", fast=("cortex-m55",)),
        *each(("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc"), "-Os", fast=()),
        *each(("cortex-m55",), "-O3", fast=()),
    ],
)
def test_same_bits_as_the_portable_code(name, level, tmp_path):
    program = program_with_both(CORES[name], tmp_path, level)
    assert run(CORES[name], program) == "2500 rounds agree\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", each(("cortex-m0plus", "cortex-m4", "rv32imc"), fast=("cortex-m4",)))
def test_same_bits_without_features(name, tmp_path):
    program = program_with_both(CORES[name], tmp_path, "-Os", features=["-DZO_FEATURES=0"])
    assert run(CORES[name], program) == "2500 rounds agree\n"


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("without", [("MVE",), ("MVE", "SIMD32")], ids=" ".join)
def test_same_bits_where_macros_are_0(without, tmp_path):
    core = CORES["cortex-m55"]
    macros = [flag for name in without for flag in (f"-U__ARM_FEATURE_{name}", f"-D__ARM_FEATURE_{name}=0")]
    assert run(core, program_with_both(core, tmp_path, "-O2", features=macros)) == "2500 rounds agree\n"


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("zo_perturb.c", "zo_signs_of(terms[1].k", "zo_signs_of(terms[0].k"),
        ("zo_step_signs_dsp.c", "-limit, limit)", "-limit, limit - 1)"),
        ("zo_step_signs.c", "sum > MOVE_MAX", "sum > MOVE_MAX + 70000"),
        ("zo_row_steps.c", "s->left == 0u && largest < s->most && ", ""),
        ("zo_apply_row.c", "saturated += zo_move_vectors_16(", "(void)zo_move_vectors_16("),
        ("zo_step_gaussian.c", "word >> 16 & 0xFFu", "word >> 8 & 0xFFu"),
        ("zo_step_signs.c", "tensor->limit > 126", "tensor->limit > 127"),
        ("zo_step_signs.c", "tables->multiplier != multiplier", "tables->multiplier < 0"),
        ("zo_step_signs.c", "one.of[bits & 3u].second", "one.of[bits & 1u].second"),
    ],
)
def test_would_notice(file, right, wrong, tmp_path):
    (source,) = (source for source in SOURCES if source.name == file)
    text = source.read_text()
    assert text.count(right) == 1
    changed = tmp_path / file
    changed.write_text(text.replace(right, wrong))
    sources = [changed if source.name == file else source for source in SOURCES]
    program = program_with_both(CORES["cortex-m4"], tmp_path, "-O2", sources)
    with pytest.raises(EmulatorError, match="round"):
        run(CORES["cortex-m4"], program)
