# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Random cases for property tests, and the same distribution for the oracle and for the C core."""

from __future__ import annotations

from hypothesis import strategies as st

from tflm_zo import native

from .stream import Dist

seeds = st.integers(0, 2**32 - 1)
streams = st.integers(0, 65535)
sizes = st.one_of(st.integers(1, 3000), st.sampled_from([1, 31, 32, 33, 1023, 1024, 1025, 2048, 2049]))

distributions = st.one_of(
    st.builds(Dist, st.just(0), st.integers(1, 127)),
    st.builds(Dist, st.just(1), st.integers(1, 127), st.integers(0, 255)),
    st.builds(Dist, st.just(2), st.one_of(st.integers(1, 1000), st.integers(1, 65535))),
)

EXAMPLES = [Dist(0, 2), Dist(1, 5, 100), Dist(2, 300)]
"""One of each kind, of sizes that training uses."""


def core(dist: Dist) -> native.Distribution:
    return native.Distribution(native.DistributionKind(dist.kind), dist.mu, dist.p_zero)
