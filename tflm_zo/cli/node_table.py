"""The layers of a ZO model that carry nodes: for every command that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from ..converters import Model, read_metadata
from ..io.table import table
from ..training import algorithm_for
from ..training.costs import SampleCosts
from ..training.plan import node_layer, plan_tasks


def node_rows(zo: Model) -> list[dict[str, Any]]:
    """Returns a row for each layer of a ZO model that carries nodes, in execution order.

    Each row has layer, form, nodes and weights (numbers, per sample), segment (the first one that queries
    re-run), suffix (the cost of that, in forward equivalents), queries (per sample and step, by default),
    pair_bytes (bytes that are kept of a sample until the update) and head (True if the loss reads it).
    """
    metadata = read_metadata(zo)
    if not metadata.nodes:
        return []
    costs = SampleCosts(zo, metadata)
    tasks = plan_tasks(algorithm_for(metadata, "node"), metadata, costs.suffix)
    rows = []
    for n in metadata.nodes:
        trainable = metadata.trainable[n.trainable]
        layer = node_layer(n)
        rows.append(
            {
                "layer": trainable.layer,
                "form": n.form,
                "nodes": n.count,
                "weights": trainable.size,
                "segment": n.node_segment,
                "suffix": round(costs.suffix(n.node_segment), 6),
                "queries": next(t.queries for t in tasks if t.nodes == n),
                "pair_bytes": (0 if trainable.bias else layer.input_bytes) + layer.route_bytes,
                "head": n.head,
            }
        )
    return rows


def node_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Returns the rows of `node_rows` as a table."""
    columns = ["layer", "form", "nodes", "weights", "segment", "suffix", "queries", "pair bytes"]
    cells = [
        [
            row["layer"] + (" (head)" if row["head"] else ""),
            *(row[name] for name in ("form", "nodes", "weights", "segment")),
            f"{row['suffix']:.2%}",
            row["queries"],
            row["pair_bytes"],
        ]
        for row in rows
    ]
    return table("Layers that carry nodes", columns, cells)
