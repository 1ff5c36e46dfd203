"""``--set NAME=VALUE``, and errors that name their settings as options of the command line."""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.injection import inject_all
from helpers.models import MODELS
from helpers.runs import settings_of
from tflm_zo.cli.commands.firmware import firmware
from tflm_zo.cli.commands.inject import inject
from tflm_zo.cli.commands.train import train
from tflm_zo.cli.option_names import in_option_syntax, options_of
from tflm_zo.cli.set_option import parse_injection, split_set
from tflm_zo.converters import ConversionError, InjectSettings, Last, ResidualBlocks, read_metadata
from tflm_zo.converters.errors import InjectError
from tflm_zo.core import Gaussian, SparseUniform
from tflm_zo.io.errors import ExistsError
from tflm_zo.training import (
    ALGORITHMS,
    Bits,
    Constant,
    Cosine,
    Exact,
    Gradient,
    Nodes,
    Normalized,
    PerError,
    Rms,
    Settings,
    SettingsError,
    Sign,
    Standardized,
    Step,
    Weights,
    algorithm,
    algorithms,
)
from tflm_zo.training.setting_texts import (
    PARTS,
    changed,
    names,
    parse_set,
    resolve,
    run_of,
    value_of,
    with_run,
    without_effect,
    written,
    written_settings,
)


def made(name: str, *given: str) -> Any:
    run, injection = split_set(given)
    assert not injection
    settings = algorithm(name)
    return changed(settings, parse_set(settings, run))


VALUES: list[tuple[str, str, str, Any]] = [
    ("node", "batch-size=48", "batch_size", 48),
    ("node", "learning-rate=0.5", "learning_rate", 0.5),
    ("layer", "learning_rate=auto", "learning_rate", None),
    ("node", "final-learning-rate=1e-3", "final_learning_rate", 0.001),
    ("node", "schedule=cosine", "schedule", "cosine"),
    ("node", "estimator=one-sided", "estimator", "one-sided"),
    ("node", "seed = 7 ", "seed", 7),
    ("node", "masked=false", "masked", False),
    ("node", "masked=Off", "masked", False),
    ("node", "queries=4", "queries", 4),
    ("node", "queries=auto", "queries", None),
    ("node", "queries=fc1=7, fc3=1", "queries", {"fc1": 7, "fc3": 1}),
    ("node", "queries=a/b=c=2", "queries", {"a/b=c": 2}),
    ("weight", "perturbation=gaussian:0.6", "perturbation", Gaussian(0.6)),
    ("weight", "perturbation=sparse-uniform:3:0.5", "perturbation", SparseUniform(3, 0.5)),
    ("node", "perturbation=3", "perturbation", 3),
    ("node", "layers=fc1, conv*", "layers", ("fc1", "conv*")),
    ("node", "layers=last:2", "layers", Last(2)),
    ("qzo-ff", "layers=auto", "layers", None),
    ("elastic-zo-int8", "exact.bits=6,5,4", "exact.bits", (6, 5, 4)),
    ("elastic-zo-int8", "stage-p-zero=0.4,0.8", "stage_p_zero", (0.4, 0.8)),
    ("elastic-zo-int8", "stage-p-zero=none", "stage_p_zero", ()),
    ("fqt", "rows=0.2,0.5", "rows", (0.2, 0.5)),
    ("weight", "sync-every=0", "sync_every", 0.0),
    ("weight", "sync-every=none", "sync_every", None),
]


@pytest.mark.parametrize(("name", "given", "setting", "value"), VALUES)
def test_values(name: str, given: str, setting: str, value: Any) -> None:
    found = value_of(made(name, given), setting)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_listed_can_be_given(name: str) -> None:
    """Reads the values of `tflm-zo algorithms NAME` with --set; each gives the same settings again."""
    settings = algorithm(name)
    listed = written_settings(settings)
    assert {"batch-size", "estimator", "seed"} <= listed.keys() or name in ("fqt", "exact")
    for setting, text in listed.items():
        assert made(name, f"{setting}={text}") == settings, setting


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_field_has_one_name(name: str) -> None:
    settings = algorithm(name)
    found = [resolve(settings, setting) for setting in names(settings)]
    owners: list[tuple[str, Any]] = [("", settings)]
    owners += [(type(task).__name__.lower(), task) for task in settings.tasks]
    expected = {
        (owner, f.name)
        for owner, own in owners
        for f in dataclasses.fields(own)
        if f.name not in ("tasks", "algorithm")
    }
    expected |= {(p.owner, p.name) for p in PARTS if p.owner in dict(owners)}
    assert sorted(found) == sorted(expected)


def test_a_name_with_a_task_adds_it() -> None:
    assert made("node", "exact.last=2").tasks == (Nodes(), Exact(last=2))
    assert made("weight", "nodes.queries=3").tasks == (*algorithm("weight").tasks, Nodes(queries=3))
    both = made("node", "weights.scope=layers", "weights.rule=gradient", "exact.rule=standardized")
    tasks = {type(task): task for task in both.tasks}
    assert tasks[Weights] == Weights(scope="layers", rule=Gradient(clip=3.0))
    assert tasks[Exact] == Exact(rule=Standardized())
    # If the algorithm has the task, its own values stay.
    assert made("fqt", "exact.last=1") == settings_of("fqt", {"last": 1})
    assert made("fqt", "exact.last=1").exact.rule == Standardized()


FULL = {
    "node": ("gradient-norm", "rule=rms"),
    "weight": ("bits", "rule=normalized"),
    "mezo": ("clip", "rule=sign"),
}


@pytest.mark.parametrize("name", FULL)
def test_a_part_that_a_value_lacks_is_no_setting(name: str) -> None:
    """It isn't listed, other values of it are refused, and its default, as old models keep it, is read."""
    part, whole = FULL[name]
    settings = made(name, whole)
    assert part not in written_settings(settings)
    assert without_effect(settings, part.replace("-", "_")).endswith("has none")
    default = written(value_of(settings, part.replace("-", "_")))
    assert made(name, whole, f"{part}={default}") == settings
    other = {"false": "true", "1": "2", "3": "4", "8": "2"}[default]
    with pytest.raises(SettingsError, match=f"{part.replace('-', '_')}` must be left out, since .* has none"):
        made(name, whole, f"{part}={other}")


def test_rules_keep_the_parts_that_both_have() -> None:
    given = made("mezo", "gradient-norm=true", "clip=2", "rule=normalized")
    assert given.weights.rule == Normalized(clip=2.0, gradient_norm=True)
    assert made("qzo-ff", "rule=gradient").weights.rule == Gradient(clip=3.0)


numbers = st.floats(0.0, 2.0**14)
SCHEDULED = st.one_of(
    st.builds(Constant, warmup=st.integers(0, 2**31)),
    st.builds(Cosine, st.floats(0.0, 0.5)),
    st.builds(Step, st.floats(0.0, 1.0), st.integers(1, 2**31), final=st.floats(0.0, 0.5)),
)
RULES = st.one_of(
    st.builds(Gradient, clip=numbers, gradient_norm=st.booleans()),
    st.builds(Normalized, clip=numbers, gradient_norm=st.booleans()),
    st.builds(Sign, gradient_norm=st.booleans()),
)
LAYERS = st.one_of(st.none(), st.builds(Last, st.integers(1, 99)), st.just(("conv*", "fc1")))
RUNS = st.builds(
    lambda rule, **run: changed(algorithms.qzo_ff(learning_rate=0.5, **run), {"rule": rule}),
    RULES,
    schedule=SCHEDULED,
    layers=LAYERS,
)
NODE_RUNS = st.builds(
    lambda rule, last, bits, schedule: Settings(
        tasks=(Nodes(rule=rule), Exact(last=last, rule=bits)), learning_rate=0.5, schedule=schedule
    ),
    st.one_of(st.just(Rms()), st.builds(Gradient, gradient_norm=st.booleans())),
    st.one_of(st.integers(1, 64), st.builds(ResidualBlocks, st.integers(1, 9))),
    st.one_of(
        st.sampled_from([Rms(), PerError(), Standardized()]), st.builds(Bits, st.tuples(*[st.integers(1, 7)] * 3))
    ),
    SCHEDULED,
)


@given(st.one_of(RUNS, NODE_RUNS))
def test_settings_come_back_from_their_texts(settings: Settings) -> None:
    usual = Settings(tasks=tuple(type(task)() for task in settings.tasks), algorithm=settings.algorithm)
    texts = {name.replace("-", "_"): text for name, text in written_settings(settings).items()}
    assert changed(usual, parse_set(usual, texts)) == settings


REFUSED: list[tuple[str, tuple[str, ...], str]] = [
    ("poor-mans-training", ("queries=4",), "`queries` must name one task"),
    ("elastic-zo", ("rule=bits",), "`rule` must name one task"),
    ("elastic-zo-int8", ("bits=3",), "`bits` must name one task"),
    *(
        ("node", (f"{name}=1",), f"`{name}` must be a setting of algorithm node: batch-size, learning-rate, final-")
        for name in ("foo", "momentum_terms", "tasks", "algorithm")
    ),
    ("node", ("nodes.clip=1",), "`nodes.clip` must be a setting of task nodes: queries, perturbation, rule, gradient-"),
    ("node", ("head.last=1",), "`head.last` must name a task of nodes, exact, weights"),
    ("node", ("seed=1", "seed=2"), "`--set seed` must be given once"),
    ("node", ("batch-size=16", "batch_size=16"), "`--set batch-size` must be given once"),
    ("node", ("rule=rms", "nodes.rule=rms"), "`nodes.rule` must be given once"),
    ("node", ("seed",), "`--set` must be NAME=VALUE. Received: 'seed'"),
    ("node", ("seed=",), "`--set` must be NAME=VALUE. Received: 'seed='"),
    ("node", ("=1",), "`--set` must be NAME=VALUE. Received: '=1'"),
    ("node", ("seed=1.5",), "`seed` must be an integer. Received: '1.5'"),
    ("node", ("schedule=step", "decay=half"), "`decay` must be a number. Received: 'half'"),
    ("node", ("masked=perhaps",), "`masked` must be true or false. Received: 'perhaps'"),
    ("elastic-zo-int8", ("exact.bits=5,4,x",), "`exact.bits` must be integers separated by commas, or none"),
    ("fqt", ("rows=0.1;1",), "`rows` must be numbers separated by commas, or none. Received: '0.1;1'"),
]


@pytest.mark.parametrize(("name", "given", "said"), REFUSED)
def test_refused(name: str, given: tuple[str, ...], said: str) -> None:
    with pytest.raises(SettingsError) as error:
        made(name, *given)
    assert str(error.value).startswith(said)


def test_settings_of_inject() -> None:
    run, injection = split_set(["loss=floor-log2", "loss-over=sum", "nodes=fc1, fc3", "update-bits=8", "seed=1"])
    assert run == {"seed": "1"}
    assert parse_injection(injection) == {
        "loss": "floor_log2",
        "loss_over": "sum",
        "nodes": ("fc1", "fc3"),
        "update_bits": 8,
    }
    assert parse_injection({"nodes": "last:2"}) == {"nodes": Last(2)}
    for texts, said in (
        ({"update_bits": "many"}, r"`--set update-bits` must be an integer\. Received: 'many'"),
        ({"nodes": "fc1,"}, "`nodes` must be names of layers. Received: 'fc1,'"),
        ({"nodes": "auto,fc1"}, "`nodes` must have auto or last:N alone"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_injection(texts)


# Settings as ZO models of earlier versions keep them.
KEPT = {
    "node": "batch-size=32 weights.perturbation=rademacher:1 weights.queries=1 weights.rule=normalized "
    "weights.clip=3 weights.scope=layers weights.gradient-norm=false weights.quantization-aware=false "
    "weights.learning-rate=auto weights.bits=1 weights.stage-p-zero=none "
    "weights.headroom=2 "
    "weights.parameters=weights",
    "weight": "batch-size=64 exact.last=block exact.rule=bits exact.bits=6,5,4 exact.rows=1,1 exact.parameters=weights",
    "mezo": "batch-size=64 weights.rule=sign weights.clip=3",
    "qzo-ff": "batch-size=64 layers=last:2",
    "poor-mans-training": "batch-size=96 nodes.rule=rms nodes.gradient-norm=false nodes.quantization-aware=false",
}


# Settings that this version does not have, and their values of no effect.
REMOVED = {"weights.int16": "none", "weights.sharpness": "false", "weights.momentum": "0"}


@pytest.mark.parametrize("name", KEPT)
def test_models_of_earlier_versions_keep_their_settings(name: str) -> None:
    settings = made(name, *KEPT[name].split())
    model = with_run(inject_all(MODELS["small_cnn"]()), settings, algorithm(name), {})
    assert list(read_metadata(model).run) == KEPT[name].split()
    expected = {
        "node": Nodes(),
        "weight": Weights(),
        "mezo": dataclasses.replace(algorithm("mezo").weights, rule=Sign()),
        "qzo-ff": algorithm("qzo-ff").weights,
        "poor-mans-training": dataclasses.replace(algorithm("poor-mans-training").nodes, rule=Rms()),
    }
    assert settings.tasks[0] == expected[name]


def test_removed_settings_of_earlier_versions() -> None:
    """Models keep them where they were off; others are refused."""
    metadata = read_metadata(inject_all(MODELS["small_cnn"]()))
    for item, off in REMOVED.items():
        own = dataclasses.replace(metadata, run=("batch-size=64", f"{item}={off}"))
        assert run_of(own) == {"batch-size": "64"}
        with pytest.raises(ConversionError, match=rf"made with setting `{item}=last`.*; use tflm_zo 0\.1"):
            run_of(dataclasses.replace(metadata, run=(f"{item}=last",)))


COMMANDS = {"train": train, "inject": inject, "firmware": firmware}


@pytest.mark.parametrize(
    ("command", "name", "value", "of_inject", "option"),
    [
        ("train", "batch_size", ..., False, "--batch-size"),
        ("train", "loss", "mse", False, "--set loss=mse"),
        ("train", "stage_p_zero", 8, False, "--set stage-p-zero=8"),
        ("train", "masked", False, False, "--set masked=false"),
        ("train", "force", True, False, "--force"),
        ("train", "replace", True, False, "--force"),
        ("train", "resume", True, False, "--resume"),
        ("train", "nodes.queries", ..., False, "--set nodes.queries"),
        ("train", "weights.stage_p_zero", ..., False, "--set weights.stage-p-zero"),
        ("train", "headroom", ..., False, "--set headroom"),
        ("train", "headroom", 2, True, "--headroom 2"),
        ("train", "update_bits", 8, True, "--update-bits 8"),
        ("train", "replay", False, True, "--no-replay"),
        ("inject", "blocks", ..., False, "--block"),
        ("inject", "cuts", ..., False, "--cut"),
        ("inject", "loss", "mse", False, "--loss mse"),
        ("firmware", "batch_size", ..., False, "--set batch-size"),
        ("firmware", "schedule", "step", False, "--set schedule=step"),
        ("firmware", "force", True, False, "--force"),
        ("firmware", "--ram", ..., False, "--ram"),
        ("train", "model", ..., False, "model"),
    ],
)
def test_options(command: str, name: str, value: Any, of_inject: bool, option: str) -> None:
    shown = in_option_syntax(options_of(COMMANDS[command]), options_of(inject))
    assert shown(name, value, of_inject) == f"`{option}`"


ERROR = SettingsError("weights.queries", "be at most 4", 8, "Inject with", inject={"max_queries": 8})


def test_one_error_in_two_languages() -> None:
    assert str(ERROR) == "`weights.queries` must be at most 4. Received: 8. Inject with `max_queries=8`."
    assert ERROR.told(in_option_syntax(options_of(train), options_of(inject))) == (
        "`--set weights.queries` must be at most 4. Received: 8. Inject with `--max-queries 8`."
    )
    # A value that looks like a setting, and a layer that is called like one, stay as they are.
    error = SettingsError("layers", "name one of `batch_size`", "max_queries=8")
    assert error.told(in_option_syntax(options_of(train), {})) == (
        "`--set layers` must name one of `batch_size`. Received: 'max_queries=8'."
    )


def test_parts_that_are_left_out() -> None:
    assert str(SettingsError("steps", "be at least 1")) == "`steps` must be at least 1."
    assert str(SettingsError("x", "be 1", None)) == "`x` must be 1. Received: None."
    assert str(SettingsError("x", "be 1", fix="Remove it")) == "`x` must be 1. Remove it."
    both = SettingsError("x", "be 1", give={"y": ..., "z": "a"})
    assert str(both) == "`x` must be 1. `y` or `z='a'`."
    assert str(ExistsError(Path("a.log"), switches=("resume", "replace"))) == (
        "a.log exists. Choose another name, or use `resume=True` or `replace=True`."
    )


@pytest.mark.parametrize("error", [ERROR, InjectError("loss", "be int8", give={"loss": "mse"})])
def test_errors_of_workers_keep_their_fields(error: SettingsError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


def test_errors_of_inject_are_of_both_kinds() -> None:
    with pytest.raises(ConversionError) as refused:
        InjectSettings(headroom=113)
    assert isinstance(refused.value, SettingsError) and isinstance(refused.value, ValueError)
    assert (refused.value.setting, refused.value.got) == ("headroom", 113)
