# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""The C core, from Python.

Every function here calls the one implementation of the arithmetic, ``ops/core``, which the runtimes' custom
ops and the firmware call too. Nothing is computed in Python but constants that a device gets prepared.

Arrays are changed in place and never converted: a wrong type, layout or size is a ``TypeError`` or a
``ValueError`` that says what was expected, and an error of the C core is a `NativeError`. After any of them
the arrays are as they were.

The weights of a tensor are an int8 array of any shape in the order in which TFLite stores them. `stream` is
the number of the tensor in the model, `limit` is 127 minus the head-room.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ALL_BLOCKS",
    "MAX_CHAIN",
    "MAX_QUERIES",
    "QUERY_DTYPE",
    "STREAM_BLOCK",
    "Command",
    "Distribution",
    "DistributionKind",
    "LogitScale",
    "NativeError",
    "Status",
    "binary_cross_entropy",
    "checksum",
    "command_check",
    "command_steps",
    "cross_entropy",
    "cross_entropy_error",
    "direction",
    "library",
    "library_path",
    "mean_squared_error",
    "perturb",
    "query_seed",
    "replay",
    "status_text",
    "update",
]

MAX_QUERIES: Final = 32
"""Largest number of queries in one step."""

MAX_CHAIN: Final = 8
"""Largest number of seeds that make up one direction."""

STREAM_BLOCK: Final = 1024
"""Weights after which the random stream of a (seed, tensor) pair restarts."""

ALL_BLOCKS: Final = 0xFFFFFFFF
"""Selects every block in an instruction of a `Command`."""

QUERY_DTYPE: Final = np.dtype([("seed", np.uint32), ("coefficient", np.int32)])
"""One (seed, coefficient) or (seed, k) pair as the C core stores it."""

Queries: TypeAlias = Sequence[tuple[int, int]] | NDArray[Any]
"""Pairs (seed, coefficient): a sequence of tuples, an integer array [n, 2] or an array of `QUERY_DTYPE`."""


class Status(IntEnum):
    """Status codes of the C core (``zo_status``)."""

    OK = 0
    ARGUMENT = 1
    COMMAND = 2
    OPCODE = 3
    ORDER = 4
    BLOCK = 5
    DISTRIBUTION = 6
    HEAD_ROOM = 7
    QUERIES = 8
    COEFFICIENT = 9
    FACTOR = 10
    CAPACITY = 11
    LABEL = 12
    OPTIONS = 13
    MEMORY = 14
    RUNTIME = 15
    SAMPLE = 16
    LOG = 17
    STORE = 18


class NativeError(RuntimeError):
    """An error that the C core reported; nothing was changed.

    Attributes:
        status: the code, see `Status`.
        text: the C core's own words for it.
    """

    def __init__(self, function: str, status: int) -> None:
        self.status = Status(status)
        self.text = status_text(status)
        super().__init__(f"{function}: {self.text} ({self.status.name})")


class DistributionKind(IntEnum):
    """Family of the random direction; values are part of the file format."""

    RADEMACHER = 0
    SPARSE_UNIFORM = 1
    GAUSSIAN = 2
    COORDINATE = 3


class _Distribution(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("p_zero", ctypes.c_uint8), ("mu", ctypes.c_uint16)]


class _LogitScale(ctypes.Structure):
    _fields_ = [("scale_log2e", ctypes.c_uint32), ("scale", ctypes.c_uint32)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("weights", ctypes.c_void_p),
        ("fraction", ctypes.c_void_p),
        ("multiplier", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
        ("channels", ctypes.c_uint32),
        ("inner", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("limit", ctypes.c_int32),
        ("mask", ctypes.c_void_p),
        ("wide", ctypes.c_uint32),
    ]


class _Limits(ctypes.Structure):
    _fields_ = [
        ("head_room", ctypes.c_uint32),
        ("max_queries", ctypes.c_uint32),
        ("blocks", ctypes.c_uint32),
    ]


class _Terms(ctypes.Structure):
    _fields_ = [("terms", ctypes.c_void_p), ("count", ctypes.c_uint32), ("momentum", ctypes.c_uint32)]


class _CommandWriter(ctypes.Structure):
    _fields_ = [("words", ctypes.c_void_p), ("capacity", ctypes.c_uint32), ("length", ctypes.c_uint32)]


# --- the library ----------------------------------------------------------------------------------------


_PACKAGE: Final = __package__.partition(".")[0]


def _library_name() -> str:
    if sys.platform == "darwin":
        return "libtflm_zo.dylib"
    return "tflm_zo.dll" if sys.platform == "win32" else "libtflm_zo.so"


@lru_cache(maxsize=1)
def library_path() -> Path:
    """Where the compiled op pack is: also what a runtime loads as its delegate.

    Raises:
        FileNotFoundError: the package was not built, for instance because it was imported from a source
            tree that is not installed.
    """
    name = _library_name()
    spec = find_spec(_PACKAGE)
    # An editable install spreads the package over the source tree and the place of the built library.
    folders = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    folders += [Path(__file__).parents[1]]
    folders += [Path(entry) / _PACKAGE for entry in sys.path if entry]
    for folder in folders:
        path = folder / "_native" / name
        if path.is_file():
            return path.resolve()
    raise FileNotFoundError(
        f"{name} is not in {folders[0] / '_native'}: tflm_zo was imported from a place where it is not "
        f"installed; run 'pip install .' or 'pip install -e .' in its source tree"
    )


# name -> (type of the result, types of the arguments). zo_status is an int.
_u8, _u32, _i32, _int, _ptr = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int, ctypes.c_void_p
_tensor, _writer = ctypes.POINTER(_Tensor), ctypes.POINTER(_CommandWriter)
_terms = ctypes.POINTER(_Terms)
_PROTOTYPES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "zo_status_text": (ctypes.c_char_p, [_int]),
    "zo_query_seed": (_u32, [_u32, _u32, _u32]),
    "zo_distribution_check": (_int, [_Distribution]),
    "zo_distribution_reach": (_i32, [_Distribution]),
    "zo_distribution_z_max": (_i32, [_Distribution]),
    "zo_direction": (_int, [_Distribution, _u32, _u32, _u32, _u32, _ptr]),
    "zo_perturb_s8": (_int, [_tensor, _Distribution, _terms]),
    "zo_update_s8": (_int, [_tensor, _Distribution, _terms, _ptr, _u32, ctypes.POINTER(_u32)]),
    "zo_replay_s8": (_int, [_tensor, _Distribution, _ptr, _u32, _u32, ctypes.POINTER(_u32)]),
    "zo_checksum": (_u32, [_tensor]),
    "zo_cross_entropy_s8": (_int, [_ptr, _u32, _u32, _LogitScale, _ptr, _ptr]),
    "zo_cross_entropy_error_s8": (_int, [_ptr, _u32, _u32, _LogitScale, _ptr, _ptr]),
    "zo_binary_cross_entropy_s8": (_int, [_ptr, _u32, _u32, _i32, _LogitScale, _ptr, _ptr]),
    "zo_mean_squared_error_s8": (_int, [_ptr, _ptr, _u32, _u32, _i32, _i32, _ptr]),
    "zo_command_begin": (_int, [_writer, _ptr, _u32, _u32]),
    "zo_command_restore": (_int, [_writer, _u32]),
    "zo_command_replay": (_int, [_writer, _u32, _Distribution, _ptr, _u32, _u32]),
    "zo_command_update": (_int, [_writer, _u32, _Distribution, _terms, _ptr, _u32]),
    "zo_command_perturb": (_int, [_writer, _u32, _Distribution, _terms]),
    "zo_command_check": (_int, [_ptr, _u32, ctypes.POINTER(_Limits)]),
    "zo_command_flags": (_u32, [_ptr]),
    "zo_command_steps": (_u32, [_ptr, _int]),
    "zo_command_execute": (_int, [_ptr, _int, _tensor, _u32, _ptr, ctypes.POINTER(_u32)]),
}


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The loaded library, every function of the core typed.

    It is loaded with its symbols global, so that TFLM's Python wheel, which looks custom ops up by name in
    the whole process, finds them.

    Raises:
        FileNotFoundError: see `library_path`.
        OSError: the library does not load on this system.
    """
    loaded = ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def status_text(status: int) -> str:
    """One line of English for a status code."""
    text: bytes = library().zo_status_text(status)
    return text.decode("ascii")


def _call(name: str, *arguments: object) -> None:
    status: int = getattr(library(), name)(*arguments)
    if status != Status.OK:
        raise NativeError(name, status)


# --- arguments ------------------------------------------------------------------------------------------


def _array(name: str, array: object, dtype: type[np.generic], *, writable: bool = False) -> int:
    """Checks an array and returns the address of its data; the caller keeps the array alive."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: expected a NumPy array of {dtype.__name__}, got {type(array).__name__}")
    if array.dtype != dtype:
        raise TypeError(f"{name}: expected dtype {dtype.__name__}, got {array.dtype}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name}: expected a C-contiguous array, got strides {array.strides}")
    if writable and not array.flags.writeable:
        raise ValueError(f"{name}: expected a writable array, got a read-only one")
    return int(array.ctypes.data)


def _integer(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name}: expected {low}..{high}, got {value}")
    return int(value)


def _unsigned(name: str, value: object) -> int:
    return _integer(name, value, 0, 2**32 - 1)


def _signed(name: str, value: object) -> int:
    return _integer(name, value, -(2**31), 2**31 - 1)


def _pairs(name: str, pairs: Queries, second: str) -> NDArray[np.void]:
    """Pairs (seed, second) as a contiguous array of `QUERY_DTYPE`."""
    if isinstance(pairs, np.ndarray) and pairs.dtype == QUERY_DTYPE:
        return np.ascontiguousarray(pairs).reshape(-1)
    try:
        table = np.asarray(pairs)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}: expected pairs (seed, {second}): {error}") from None
    if table.size == 0:
        return np.zeros(0, QUERY_DTYPE)
    if table.ndim != 2 or table.shape[1] != 2:
        raise ValueError(f"{name}: expected pairs (seed, {second}), got an array of shape {table.shape}")
    if table.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected pairs of integers (seed, {second}), got {table.dtype}")
    if table[:, 0].min() < 0 or table[:, 0].max() > 2**32 - 1:
        raise ValueError(f"{name}: expected seeds in 0..2^32-1")
    if table[:, 1].min() < -(2**31) or table[:, 1].max() > 2**31 - 1:
        raise ValueError(f"{name}: expected each {second} in -2^31..2^31-1")
    result = np.empty(len(table), QUERY_DTYPE)
    result["seed"], result["coefficient"] = table[:, 0], table[:, 1]
    return result


def _steps(steps: Sequence[Queries] | NDArray[Any]) -> tuple[NDArray[np.void], int, int]:
    """Recorded steps as a flat array of `QUERY_DTYPE`, queries per step, number of steps."""
    if isinstance(steps, np.ndarray) and steps.dtype == QUERY_DTYPE:
        if steps.ndim != 2:
            raise ValueError(f"steps: expected an array [steps, queries], got shape {steps.shape}")
        return np.ascontiguousarray(steps).reshape(-1), steps.shape[1], steps.shape[0]
    converted = [_pairs(f"steps[{i}]", step, "coefficient") for i, step in enumerate(steps)]
    if not converted:
        return np.zeros(0, QUERY_DTYPE), 0, 0
    lengths = {len(step) for step in converted}
    if len(lengths) != 1:
        raise ValueError(f"steps: expected equally many queries in each step, got {sorted(lengths)}")
    return np.concatenate(converted), lengths.pop(), len(converted)


# --- directions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distribution:
    """Distribution of a perturbation; use the constructors below.

    Attributes:
        kind: family of the direction z.
        mu: size of the perturbation; the unit depends on the kind.
        p_zero: sparse uniform only: zero probability in 1/256.

    Raises:
        ValueError: a parameter is out of range.
    """

    kind: DistributionKind
    mu: int
    p_zero: int = 0

    def __post_init__(self) -> None:
        """Checks the parameters against the ranges of ``zo_types.h``."""
        object.__setattr__(self, "kind", DistributionKind(self.kind))
        _integer("mu", self.mu, 1, 65535 if self.kind is DistributionKind.GAUSSIAN else 127)
        _integer("p_zero", self.p_zero, 0, 255 if self.kind is DistributionKind.SPARSE_UNIFORM else 0)

    @classmethod
    def rademacher(cls, mu: int = 1) -> Distribution:
        """Every weight moves by +mu or -mu LSB, mu in 1..127."""
        return cls(DistributionKind.RADEMACHER, mu)

    @classmethod
    def sparse_uniform(cls, radius: int, p_zero_fraction: float = 0.0) -> Distribution:
        """A weight stays with the given probability, else moves uniformly by -radius..radius LSB.

        Args:
            radius: 1..127 LSB.
            p_zero_fraction: 0 to 1, kept in units of 1/256, 255/256 at most.
        """
        if not 0.0 <= p_zero_fraction <= 1.0:
            raise ValueError(f"p_zero_fraction: expected 0 to 1, got {p_zero_fraction}")
        return cls(DistributionKind.SPARSE_UNIFORM, radius, min(255, round(p_zero_fraction * 256)))

    @classmethod
    def gaussian(cls, std_lsb: float) -> Distribution:
        """Every weight moves by a quantized normal of the given standard deviation, in LSB (up to 580)."""
        mu = std_lsb * 3.5 / 127 * 4096
        if not 0.5 <= mu < 65535.5:
            raise ValueError(f"std_lsb: expected 0.0045 to 580, got {std_lsb}")
        return cls(DistributionKind.GAUSSIAN, round(mu))

    @classmethod
    def coordinate(cls, mu: int = 1) -> Distribution:
        """One weight of each tensor moves by mu LSB, mu in 1..127: coordinate-wise estimation (DeepZero)."""
        return cls(DistributionKind.COORDINATE, mu)

    @property
    def reach(self) -> int:
        """Largest change of one weight, in LSB: the head-room that the distribution needs."""
        return int(library().zo_distribution_reach(self._c))

    @property
    def z_max(self) -> int:
        """Largest |z| of one weight: what a coefficient of an update is multiplied with."""
        return int(library().zo_distribution_z_max(self._c))

    @property
    def word(self) -> int:
        """The distribution as a word of ``zo_command``."""
        return int(self.kind) << 24 | self.p_zero << 16 | self.mu

    @property
    def _c(self) -> _Distribution:
        return _Distribution(int(self.kind), self.p_zero, self.mu)


def query_seed(run_seed: int, step: int, query: int) -> int:
    """Seed of a query of a step of a run, as the control unit chooses it; all of them 0..2^32-1."""
    return int(
        library().zo_query_seed(
            _unsigned("run_seed", run_seed), _unsigned("step", step), _unsigned("query", query)
        )
    )


def direction(
    distribution: Distribution, seed: int, stream: int, count: int, begin: int = 0
) -> NDArray[np.int8]:
    """The direction z of a seed for the weights begin..begin+count-1 of a tensor.

    Args:
        distribution: its mu matters to the sparse uniform alone.
        seed: 0..2^32-1.
        stream: number of the tensor.
        count: number of weights, at least 1.
        begin: first weight, a multiple of `STREAM_BLOCK`; coordinate: 0, and `count` is the tensor's size.

    Returns:
        int8 [count].

    Raises:
        NativeError: ARGUMENT, DISTRIBUTION.
    """
    z = np.zeros(_unsigned("count", count), np.int8)
    _call(
        "zo_direction",
        distribution._c,
        _unsigned("seed", seed),
        _unsigned("stream", stream),
        _unsigned("begin", begin),
        count,
        z.ctypes.data,
    )
    return z


# --- weights --------------------------------------------------------------------------------------------


def _make_tensor(
    weights: NDArray[np.int8],
    fraction: NDArray[np.int8] | None,
    multiplier: NDArray[np.int32] | None,
    channels: int,
    inner: int,
    stream: int,
    limit: int,
    writable: bool = True,
    mask: NDArray[np.uint8] | None = None,
    wide: bool = False,
) -> _Tensor:
    tensor = _Tensor()
    tensor.weights = _array("weights", weights, np.int8, writable=writable)
    tensor.size = _unsigned("weights.size", weights.size)
    if fraction is not None:
        tensor.fraction = _array("fraction", fraction, np.int8, writable=writable)
        if fraction.size != weights.size:
            raise ValueError(f"fraction: expected {weights.size} elements like weights, got {fraction.size}")
    tensor.channels = _unsigned("channels", channels)
    tensor.inner = _unsigned("inner", inner)
    if multiplier is not None:
        tensor.multiplier = _array("multiplier", multiplier, np.int32)
        if multiplier.size != channels:
            raise ValueError(
                f"multiplier: expected one element per channel ({channels}), got {multiplier.size}"
            )
        if multiplier.size and multiplier.min() < 0:
            raise ValueError("multiplier: expected Q31 factors in 0..2^31-1")
        if inner < 1 or channels < 1 or weights.size % (channels * inner):
            raise ValueError(
                f"channels, inner: expected their product ({channels} * {inner}) to divide the number of "
                f"weights, {weights.size}"
            )
    tensor.stream = _unsigned("stream", stream)
    tensor.limit = _signed("limit", limit)
    if mask is not None:
        tensor.mask = _array("mask", mask, np.uint8)
        if mask.size != -(-weights.size // 8):
            raise ValueError(f"mask: expected {-(-weights.size // 8)} bytes, a bit a weight, got {mask.size}")
    tensor.wide = int(wide)
    return tensor


def perturb(
    weights: NDArray[np.int8],
    seed_k_pairs: Queries,
    distribution: Distribution,
    stream: int = 0,
    *,
    momentum: int = 0,
    mask: NDArray[np.uint8] | None = None,
    fraction: NDArray[np.int8] | None = None,
    limit: int = 127,
) -> None:
    """Adds perturbations to the weights, modulo 256: after +1, -2, +1 of a seed they are what they were.

    Args:
        weights: int8, changed in place.
        seed_k_pairs: 1 to 32 pairs (seed, k), k one of -2, -1, +1; all are added in one pass. Pairs (seed, 0)
            that follow one are earlier seeds of its direction, see ``zo_chain.h``; up to 7, Gaussian only.
        distribution: of the perturbation.
        stream: number of the tensor.
        momentum: of directions of several seeds, unit 2^-16, below 2^16.
        mask: uint8 [(weights + 7) // 8], bit i % 8 of byte i // 8 says whether weight i is perturbed; None:
            all are.
        fraction: int8 like `weights`, units of 2^-8 LSB: the tensor is wide, and Gaussian perturbations move
            256 weight + fraction, modulo 2^16. Changed in place. None: it is not.
        limit: 127 minus the head-room, 0..127, which perturbations of a wide tensor are kept to.

    Raises:
        NativeError: ARGUMENT, DISTRIBUTION, FACTOR, QUERIES.
    """
    tensor = _make_tensor(weights, fraction, None, 1, 1, stream, limit, mask=mask, wide=fraction is not None)
    table = _pairs("seed_k_pairs", seed_k_pairs, "k")
    terms = _make_terms(table, momentum)
    _call("zo_perturb_s8", ctypes.byref(tensor), distribution._c, ctypes.byref(terms))


def _make_terms(table: NDArray[np.void], momentum: int) -> _Terms:
    """A perturbation; the caller keeps the table alive."""
    return _Terms(table.ctypes.data, len(table), _integer("momentum", momentum, 0, 2**16 - 1))


def _restoration(queries: NDArray[np.void], restore_k: int, restore: Queries) -> NDArray[np.void]:
    """The terms that precede a step: `restore`, or `restore_k` times the last query's direction."""
    if not _signed("restore_k", restore_k) or len(queries) == 0:
        return _pairs("restore", restore, "k")
    if len(restore):
        raise ValueError("restore, restore_k: expected one of them, got both")
    last: NDArray[np.void] = queries[-1:].copy()
    last["coefficient"] = restore_k
    return last


def update(
    weights: NDArray[np.int8],
    fraction: NDArray[np.int8] | None,
    multiplier: NDArray[np.int32] | None,
    channels: int,
    inner: int,
    stream: int,
    limit: int,
    distribution: Distribution,
    queries: Queries,
    restore_k: int = 0,
    *,
    restore: Queries = (),
    momentum: int = 0,
    mask: NDArray[np.uint8] | None = None,
    wide: bool = False,
) -> int:
    """One optimization step: every weight moves by the sum of coefficient * z(seed), see ``zo_update.h``.

    Args:
        weights: int8, every value within ±limit (before what `restore_k` undoes); changed in place.
        fraction: int8 like `weights`, units of 2^-8 LSB, changed in place: selects the 16-bit update. None
            selects the 8-bit one with stochastic rounding.
        multiplier: int32 [channels], Q31 factor of the step per output channel, or None for 1.
        channels: number of output channels; with `inner` read only where there is a multiplier.
        inner: weight i belongs to channel (i // inner) % channels.
        stream: number of the tensor.
        limit: 127 minus the head-room; the step is clipped to ±limit.
        distribution: of the direction.
        queries: 1 to 32 pairs (seed, coefficient); unit of the coefficient: 2^-16 LSB per unit of z.
        restore_k: adds this many perturbations (-1, 0, +1) of the last query's seed before the step.
        restore: the same in general: pairs (seed, k), see `perturb`, up to 32, added before the step.
        momentum: of these, see `perturb`.
        mask: of what is perturbed and moved, see `perturb`.
        wide: whether what precedes the step is a perturbation of 16 bits, see `perturb`.

    Returns:
        How many weights were clipped.

    Raises:
        NativeError: ARGUMENT, DISTRIBUTION, FACTOR, QUERIES, COEFFICIENT.
    """
    tensor = _make_tensor(weights, fraction, multiplier, channels, inner, stream, limit, mask=mask, wide=wide)
    table = _pairs("queries", queries, "coefficient")
    before = _restoration(table, restore_k, restore)
    terms = _make_terms(before, momentum)
    saturated = ctypes.c_uint32(0)
    _call(
        "zo_update_s8",
        ctypes.byref(tensor),
        distribution._c,
        ctypes.byref(terms),
        table.ctypes.data,
        len(table),
        ctypes.byref(saturated),
    )
    return saturated.value


def replay(
    weights: NDArray[np.int8],
    fraction: NDArray[np.int8] | None,
    multiplier: NDArray[np.int32] | None,
    channels: int,
    inner: int,
    stream: int,
    limit: int,
    distribution: Distribution,
    steps: Sequence[Queries] | NDArray[Any],
    mask: NDArray[np.uint8] | None = None,
) -> int:
    """Applies recorded steps in one walk over the weights: the same as `update` for each of them.

    Args:
        weights: as in `update`, like all arguments that are not described here.
        fraction: see `update`.
        multiplier: see `update`.
        channels: see `update`.
        inner: see `update`.
        stream: see `update`.
        limit: see `update`.
        distribution: see `update`.
        steps: for each step its pairs (seed, coefficient), equally many in each; or an array
            [steps, queries] of `QUERY_DTYPE`.
        mask: see `perturb`.

    Returns:
        How many weights were clipped, summed over the steps.

    Raises:
        NativeError: as `update`.
    """
    tensor = _make_tensor(weights, fraction, multiplier, channels, inner, stream, limit, mask=mask)
    table, queries, count = _steps(steps)
    saturated = ctypes.c_uint32(0)
    _call(
        "zo_replay_s8",
        ctypes.byref(tensor),
        distribution._c,
        table.ctypes.data,
        queries,
        count,
        ctypes.byref(saturated),
    )
    return saturated.value


def checksum(weights: NDArray[np.int8], fraction: NDArray[np.int8] | None = None, stream: int = 0) -> int:
    """Checksum of one tensor, 0..2^32-1; a model's is the sum of its tensors' modulo 2^32."""
    tensor = _make_tensor(weights, fraction, None, 1, 1, stream, 127, writable=False)
    return int(library().zo_checksum(ctypes.byref(tensor)))


# --- losses ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogitScale:
    """Scale of the logits in the fixed point of the cross-entropies.

    Attributes:
        scale_log2e: round(s * log2(e) * 2^24).
        scale: round(s * 2^24).
    """

    scale_log2e: int
    scale: int

    @classmethod
    def of(cls, scale: float) -> LogitScale:
        """Prepares a logit scale s, 2^-20 to 64."""
        if not 2.0**-20 <= scale <= 64.0:
            raise ValueError(f"scale: expected 2^-20 to 64, got {scale}")
        return cls(round(scale * math.log2(math.e) * 2**24), round(scale * 2**24))

    @property
    def _c(self) -> _LogitScale:
        return _LogitScale(self.scale_log2e, self.scale)


def _scale(scale: float | LogitScale) -> LogitScale:
    return scale if isinstance(scale, LogitScale) else LogitScale.of(float(scale))


def _matrix(name: str, array: NDArray[np.int8], minimum: int) -> tuple[int, int, int]:
    """Address, rows and columns of an int8 array [samples, ...]."""
    address = _array(name, array, np.int8)
    if array.ndim < 2 or array.size == 0 or array.size // array.shape[0] < minimum:
        raise ValueError(
            f"{name}: expected shape [samples, n] with at least one sample and n >= {minimum}, "
            f"got {array.shape}"
        )
    return address, array.shape[0], array.size // array.shape[0]


def _labels(labels: NDArray[np.int32], count: int) -> int:
    address = _array("labels", labels, np.int32)
    if labels.size != count:
        raise ValueError(f"labels: expected {count} elements, got {labels.size}")
    return address


def cross_entropy(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float | LogitScale
) -> NDArray[np.int32]:
    """Softmax cross-entropy of each sample.

    Args:
        logits: int8 [samples, classes], at least 2 classes.
        labels: int32 [samples], 0..classes-1, or -1 for an unlabelled sample (loss 0).
        scale: of the logits, 2^-20 to 64.

    Returns:
        int32 [samples], unit 2^-16 nat.

    Raises:
        NativeError: LABEL.
    """
    address, samples, classes = _matrix("logits", logits, 2)
    losses = np.zeros(samples, np.int32)
    _call(
        "zo_cross_entropy_s8",
        address,
        samples,
        classes,
        _scale(scale)._c,
        _labels(labels, samples),
        losses.ctypes.data,
    )
    return losses


def cross_entropy_error(
    logits: NDArray[np.int8], labels: NDArray[np.int32], scale: float | LogitScale
) -> NDArray[np.int16]:
    """Derivative of `cross_entropy` by the scaled logits: softmax minus one-hot label.

    Args:
        logits: see `cross_entropy`.
        labels: see `cross_entropy`.
        scale: see `cross_entropy`.

    Returns:
        int16 [samples, classes], unit 2^-15, saturated to ±32767; 0 for an unlabelled sample.

    Raises:
        NativeError: LABEL.
    """
    address, samples, classes = _matrix("logits", logits, 2)
    errors = np.zeros((samples, classes), np.int16)
    _call(
        "zo_cross_entropy_error_s8",
        address,
        samples,
        classes,
        _scale(scale)._c,
        _labels(labels, samples),
        errors.ctypes.data,
    )
    return errors


def binary_cross_entropy(
    logits: NDArray[np.int8],
    labels: NDArray[np.int32],
    scale: float | LogitScale,
    zero_point: int = 0,
) -> NDArray[np.int32]:
    """Sigmoid cross-entropy of each sample, summed over its outputs.

    Args:
        logits: int8 [samples, outputs].
        labels: int32 [samples, outputs], 0 or 1, or -1 for an unlabelled output.
        scale: of the logits, 2^-20 to 64.
        zero_point: of the logits, -128..127.

    Returns:
        int32 [samples], unit 2^-16 nat.

    Raises:
        NativeError: LABEL.
    """
    address, samples, outputs = _matrix("logits", logits, 1)
    losses = np.zeros(samples, np.int32)
    _call(
        "zo_binary_cross_entropy_s8",
        address,
        samples,
        outputs,
        _integer("zero_point", zero_point, -128, 127),
        _scale(scale)._c,
        _labels(labels, samples * outputs),
        losses.ctypes.data,
    )
    return losses


def mean_squared_error_factor(scale: float, elements: int) -> tuple[int, int]:
    """The factor scale^2 / elements * 2^16 as (multiplier, shift): multiplier * 2^-shift.

    Raises:
        ValueError: the factor is outside 2^-32 to 2^31.
    """
    factor = float(scale) ** 2 / elements * 2**16
    if not (math.isfinite(factor) and factor > 0.0):
        raise ValueError(f"scale: expected a positive number, got {scale}")
    mantissa, exponent = math.frexp(factor)  # factor = mantissa * 2^exponent, mantissa in [0.5, 1)
    multiplier, shift = round(mantissa * 2**31), 31 - exponent
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift - 1
    if not 0 <= shift <= 62:
        raise ValueError(f"scale: scale^2 / elements is {factor / 2**16:g}, expected 2^-48 to 2^15")
    return multiplier, shift


def mean_squared_error(
    outputs: NDArray[np.int8], targets: NDArray[np.int8], scale: float
) -> NDArray[np.int32]:
    """Mean squared error of each sample; outputs and targets are quantized alike.

    Args:
        outputs: int8 [samples, ...], up to 2^20 elements per sample.
        targets: int8, like `outputs`.
        scale: of both.

    Returns:
        int32 [samples], unit 2^-16, saturated to 2^31-1.

    Raises:
        NativeError: ARGUMENT.
    """
    address, samples, elements = _matrix("outputs", outputs, 1)
    target_address = _array("targets", targets, np.int8)
    if targets.size != outputs.size:
        raise ValueError(f"targets: expected shape {outputs.shape} like outputs, got {targets.shape}")
    multiplier, shift = mean_squared_error_factor(scale, elements)
    losses = np.zeros(samples, np.int32)
    _call(
        "zo_mean_squared_error_s8",
        address,
        target_address,
        samples,
        elements,
        multiplier,
        shift,
        losses.ctypes.data,
    )
    return losses


# --- commands -------------------------------------------------------------------------------------------


def _block(block: int | None) -> int:
    return ALL_BLOCKS if block is None else _unsigned("block", block)


class Command:
    """Writes the ``zo_command`` tensor: what the weight ops do in one invoke.

    Instructions must come in the order restore, replay, update, perturb, in which the graph executes them; a
    `block` of None selects every block. What does not fit is a `NativeError` and leaves the command as it
    was. Methods return the command:

        Command(45).update(queries, distribution, restore_k=1).perturb([(seed, 1)], distribution).words

    Args:
        capacity: number of words of the tensor.
        loss: the loss op computes losses in this invoke.
        checksum: ``zo_status`` carries the weight checksum after this invoke.
    """

    def __init__(self, capacity: int, *, loss: bool = True, checksum: bool = False) -> None:
        self._words = np.zeros(_unsigned("capacity", capacity), np.int32)
        self._writer = _CommandWriter()
        flags = (1 if loss else 0) | (2 if checksum else 0)
        _call(
            "zo_command_begin", ctypes.byref(self._writer), self._words.ctypes.data, self._words.size, flags
        )

    @property
    def words(self) -> NDArray[np.int32]:
        """int32 [capacity], zero after the last instruction: the tensor's content."""
        return self._words

    @property
    def length(self) -> int:
        """Number of words in use."""
        return int(self._writer.length)

    def restore(self, block: int | None = None) -> Command:
        """The weights become the initial ones."""
        _call("zo_command_restore", ctypes.byref(self._writer), _block(block))
        return self

    def replay(
        self,
        steps: Sequence[Queries] | NDArray[Any],
        distribution: Distribution,
        block: int | None = None,
    ) -> Command:
        """Applies recorded steps, see `replay`."""
        table, queries, count = _steps(steps)
        _call(
            "zo_command_replay",
            ctypes.byref(self._writer),
            _block(block),
            distribution._c,
            table.ctypes.data,
            queries,
            count,
        )
        return self

    def update(
        self,
        queries: Queries,
        distribution: Distribution,
        restore_k: int = 0,
        block: int | None = None,
        *,
        restore: Queries = (),
        momentum: int = 0,
    ) -> Command:
        """One step, see `update`."""
        table = _pairs("queries", queries, "coefficient")
        before = _restoration(table, restore_k, restore)
        terms = _make_terms(before, momentum)
        _call(
            "zo_command_update",
            ctypes.byref(self._writer),
            _block(block),
            distribution._c,
            ctypes.byref(terms),
            table.ctypes.data,
            len(table),
        )
        return self

    def perturb(
        self,
        seed_k_pairs: Queries,
        distribution: Distribution,
        block: int | None = None,
        *,
        momentum: int = 0,
    ) -> Command:
        """Adds perturbations, see `perturb`."""
        table = _pairs("seed_k_pairs", seed_k_pairs, "k")
        terms = _make_terms(table, momentum)
        _call(
            "zo_command_perturb",
            ctypes.byref(self._writer),
            _block(block),
            distribution._c,
            ctypes.byref(terms),
        )
        return self


def command_check(words: NDArray[np.int32], *, head_room: int, max_queries: int, blocks: int) -> None:
    """Checks a whole command against what a model allows.

    Args:
        words: int32 [capacity].
        head_room: largest perturbation of a weight, LSB.
        max_queries: seeds in one update or step of a replay.
        blocks: number of blocks of the model.

    Raises:
        NativeError: what a weight op would report.
    """
    limits = _Limits(
        _unsigned("head_room", head_room), _unsigned("max_queries", max_queries), _unsigned("blocks", blocks)
    )
    address = _array("words", words, np.int32)
    _call("zo_command_check", address, _unsigned("words.size", words.size), ctypes.byref(limits))


def command_steps(words: NDArray[np.int32]) -> int:
    """Number of steps that a checked command applies: one per update, and those of its replays."""
    address = _array("words", words, np.int32)
    count: Iterable[int] = (library().zo_command_steps(address, opcode) for opcode in (2, 3))
    return sum(count)
