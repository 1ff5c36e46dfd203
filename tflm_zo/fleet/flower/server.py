# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""A fleet's server."""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from .strategy import FleetStrategy

__all__ = ["server_app"]


def server_app(
    make: Callable[[Context], FleetStrategy],
    evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
) -> ServerApp:
    """Returns a ServerApp that does the steps of a fleet's run.

    Args:
        make: the strategy, with the log, which may have been begun already.
        evaluate_fn: evaluates the fleet's weights at the server after each round, see
            `flwr.serverapp.strategy.Strategy.start`.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = make(context)
        try:
            strategy.run(grid, evaluate_fn)
        finally:
            strategy.log.close()

    return app
