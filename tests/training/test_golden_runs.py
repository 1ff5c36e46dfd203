# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Whole short runs, to the bit: what a log holds and where its weights end.

Oracles say that a run is right. These digests say that it is the same as it was: whoever changes a random
stream, a rounding or a field of a log finds out here, on any machine. They are SHA-256 sums of the log and of
all trained weights, then fractions, after six steps in the exact mode.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import MODELS
from tflm_zo import inject
from tflm_zo.training import Trainer, algorithm

STEPS = 6

# algorithm, settings, what is kept, of the log, of the weights
GOLDEN: dict[str, tuple[str, dict[str, Any], str, str, str]] = {
    "weight": (
        "weight",
        {},
        "last",
        "a609931a53c6b0c98ca1035b813c6122233c8cbad470bd66491df497fa585e60",
        "389dafca487d926d33e32bfd66e2241af54df1093380ae5b5a883a06e7db547d",
    ),
    "weight, queries": (
        "weight",
        {"queries": 3, "estimator": "one-sided", "schedule": "cosine"},
        "last",
        "2c01c1653056f84a6ac78aa620a9c2d4a933db10e670698b60a5216f5f2a50af",
        "c0cffa67634f103fb307bde6451751505c373ac6790915ce8a972dfa4d9c10fa",
    ),
    "momentum": (
        "qzo-ff",
        {"momentum": 0.5, "momentum_terms": 3},
        "last",
        "b885843eb405adf7a8c6ae7dd8386656305f5aba8d3c66aaab4e1216c3b6313e",
        "df62356e4641518bb68d9302e873a2aa8ba355b142d48a3161116680b9e9d573",
    ),
    "sharpness": (
        "qzo-ff",
        {"sharpness": True},
        "last",
        "2c7774dc631d634905b633225c5d979f862b83969cddbeeac284f271bcccd8d8",
        "60011a1b559e0627ce55e9d32cd568af93c84713f74d4c6de2696287652a2d19",
    ),
    "wide": (
        "qzo-ff-probe",
        {},
        "last",
        "8dfbc6f0913868a07bdf52046cb62ad11b64f562e956e7026bf8ce1506d697be",
        "9340bcfec5875a36888aa2de44cbd0db1dd1a520e20230c4caeba504d7d11fae",
    ),
    "gradient": (
        "mezo",
        {"gradient_norm": True},
        "last",
        "dfb260946d6e93310b989553986c5d4152cb620768071596312b9c6e87962b45",
        "8884b2ecdcecd2984bc9659d75c1ec737c1bd8624b132909c8701ce88c940f7e",
    ),
    "node": (
        "node",
        {},
        "last",
        "f824b083079b14b754adef0c9e4659a28707b6865161979606a28d41d457b55f",
        "83b946ca4c7ef8a7097b15382ad53a6e1f41e2a1e299ddc745649d9e8ada13da",
    ),
    "exact head": (
        "node",
        {"head": "exact", "queries": 2},
        "last",
        "75353ae1e16babf5c7fd0a327790265a466d5380c3488d00f0b649e6ff6e3c2e",
        "18119feaa578618ee3f63c9a0c7188a5d58dde2511b90aaff550d41ca91d640e",
    ),
    "layers": (
        "poor-mans-training",
        {},
        "last",
        "7de4b265a13d5818ac03e0ab77469a6265a90b3ed5917cfb7b4ed2a9c1c136da",
        "1b81e02d3350f547f3f105ecb010b1da73bad7676ab49cf88aa74ab24311ded1",
    ),
    "coordinates": (
        "deepzero",
        {},
        "last",
        "875f8736d8a4f9fa26eb44152095126e140407ac2dd5f7b5934a757ed24477fa",
        "6e6d76c1663d4c555954ddb1c8686f3561b1d74b87aaa50b7fc136998a3da65e",
    ),
    "elastic": (
        "elastic-zo",
        {},
        "last",
        "6a8733b228b464fccf7dccdf03936f5489b3de44c9f69ce722e21858a80db925",
        "2177859c6eed9852e29509826fcb4ee1cb74855d5d580cf93c5f756776bcad3c",
    ),
    "bits": (
        "elastic-zo-int8",
        {},
        "last",
        "8d53b2afff98f75b440b7125cd76264317210c6155028e6a423f39ba7f943589",
        "c2e437ef871b93db650ca0fb796c2416108ec58df0f4b0b25aefcc66f115b8f1",
    ),
    "weight, measured": (
        "weight",
        {},
        "best",
        "3eac6be79219195975f8b5d5b334f4775c85418373513ce2d7375e260912726c",
        "d4f69f466cb570e3cd78c81d524c249c1193a1fbd6324c90f2dc014bfaf035cc",
    ),
    "node, measured": (
        "node",
        {},
        "best",
        "0e3b40e9e931502f949f5587c336e7291a899bde0b513a8490e3347028cf46ed",
        "83b946ca4c7ef8a7097b15382ad53a6e1f41e2a1e299ddc745649d9e8ada13da",
    ),
    "standardized": (
        "fqt",
        {"tail": 1},
        "last",
        "af23908c1123d00a6c3e557897322b8555a82f8529c2706bcc779649d1286c7a",
        "d1009e8648576825633833e549c330af1906d4cd9c7d74aa7ecd51c28164a5be",
    ),
}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", GOLDEN)
def test_a_run_is_what_it_was(name: str, tmp_path: Path) -> None:
    method, settings, keep, log_digest, weights_digest = GOLDEN[name]
    chosen = algorithm(method)
    settings = {**settings, "batch_size": 8, "seed": 5}
    model = inject(MODELS["small_cnn"](), chosen.inject_settings(settings, batch=4))
    trainer = Trainer(model, chosen.make(**settings), runtime="litert-ref")
    rng = np.random.default_rng(7)
    x = rng.integers(-128, 128, (20, 8, 8, 1)).astype(np.int8)
    y = rng.integers(0, 4, 20)
    log = tmp_path / "run.zolog"
    trainer.fit(x, y, steps=STEPS, log=log, keep=keep)
    parts = [*trainer.runtime.read_weights().items(), *trainer.runtime.read_fractions().items()]
    weights = b"".join(values.tobytes() for _, values in parts)
    assert (digest(log.read_bytes()), digest(weights)) == (log_digest, weights_digest)
