"""Training by node perturbation, sample by sample and node by node; a runtime does the forward passes."""

from typing import Any

import numpy as np

from tflm_zo.converters import Model, ZoNodes
from tflm_zo.runtime import load
from tflm_zo.training import Exact, Linear
from tflm_zo.training import Settings as RunSettings

from . import node_run, nodes
from .control import sample_at
from .fixed_losses import cross_entropy_error
from .node_draws import rows_of, stored
from .node_run import LINEAR, ONE, Scale, Settings, Task

Array = np.ndarray[Any, Any]


# --- the run --------------------------------------------------------------------------------------------


def layer_of(n: ZoNodes) -> nodes.Layer:
    g = n.geometry

    def pair(name: str, default: int = 1) -> tuple[int, int]:
        return g.get(f"{name}_h", default), g.get(f"{name}_w", default)

    return nodes.Layer(
        {"plain": nodes.PLAIN, "max_pool": nodes.MAX_POOL, "mean": nodes.MEAN}[n.form],
        (*pair("in"), g["in_c"]),
        pair("k"),
        pair("stride"),
        pair("dilation"),
        (g["pad_top"], g["pad_left"]),
        (*pair("out"), g["out_c"]),
        pair("node"),
        pair("pool"),
        pair("pool_stride"),
        (g.get("pool_pad_top", 0), g.get("pool_pad_left", 0)),
        g["input_zero_point"],
        g["low"],
        g["high"],
        depthwise=bool(g.get("depthwise")),
    )


class NodeTraining:
    """A whole run: flat weights and fractions by tensor name, and the mean loss of each step, unit 2^-16."""

    def __init__(self, model: Model, settings: RunSettings, steps: int, x: Array, y: Array) -> None:
        self.runtime = load(model, "litert")
        self.metadata = self.runtime.metadata
        self.settings, self.x, self.y = settings, x, y
        self.layers = [layer_of(n) for n in self.metadata.nodes]
        task, exact = settings.nodes, settings.has(Exact)
        assert isinstance(task.queries, int) and isinstance(settings.schedule, Linear)
        batch = self.metadata.batch
        # Layers that feed the same sum share its nodes: the first of them asks.
        where = [n.node_segment for n in self.metadata.nodes]
        self.asking = [where.index(segment) for segment in where]
        self.exact = [n.head and exact for n in self.metadata.nodes]
        self.s = Settings(
            tuple(
                Task(n.node_segment, 0 if self.exact[t] or first != t else task.queries, task.perturbation)
                for t, (n, first) in enumerate(zip(self.metadata.nodes, self.asking, strict=True))
            ),
            run_seed=settings.seed,
            steps=steps,
            samples=len(x),
            batch=batch,
            parts=settings.batch_size // batch,
            rate=round(settings.chosen_rate(steps) * ONE),
            final_rate=round(settings.schedule.last_rate * ONE),
            schedule=LINEAR,
            clip=round(settings.step_clip * ONE),
        )
        self.weights = {k: v.reshape(-1).copy() for k, v in self.runtime.read_weights().items()}
        self.fractions = {k: v.reshape(-1).copy() for k, v in self.runtime.read_fractions().items()}
        self.multipliers = {
            t.name.removesuffix("/zo_multiplier"): t.numpy()
            for g in model.subgraphs
            for t in g.tensors
            if t.name.endswith("/zo_multiplier")
        }
        self.means = [Scale(0, 0) for _ in self.layers]
        self.losses: list[int] = []

    def run(self) -> None:
        for step in range(self.s.steps):
            self._step(step)

    def _activation(self, segment: int, inputs: Array) -> Array:
        return (inputs if segment == 0 else self.runtime.boundary(segment)).astype(np.int64)

    def _step(self, step: int) -> None:
        s, runtime, count = self.s, self.runtime, len(self.layers)
        seen: list[list[tuple[Array, Array, Array]]] = [[] for _ in range(count)]
        differences: list[list[Array]] = [[] for _ in range(count)]
        labels, total = [], 0
        for part in range(s.parts):
            begin = (step * s.parts + part) * s.batch
            chosen = [sample_at(s.run_seed, s.samples, begin + i) for i in range(s.batch)]
            inputs = self.x[chosen]
            labels.append(self.y[chosen].astype(np.int32))
            runtime.set_inputs(inputs)
            runtime.set_labels(self.y[chosen])
            runtime.invoke(runtime.command())
            total += int(runtime.losses().astype(np.int64).sum())
            for t, (n, layer) in enumerate(zip(self.metadata.nodes, self.layers, strict=True)):
                seen[t].append(
                    (
                        self._activation(n.input_segment, inputs).reshape(-1, *layer.inputs),
                        self._activation(n.output_segment, inputs).reshape(-1, *layer.outputs),
                        self._activation(n.node_segment, inputs),
                    )
                )
            for t in range(count):
                differences[t].append(self._differences(step, part, t, seen[t][-1][2]))
        for t in range(count):
            inputs, outputs, node = (np.concatenate(v) for v in zip(*seen[t], strict=True))
            given = np.concatenate(differences[self.asking[t]], 1)
            self._update(step, t, inputs, outputs, node, given, labels)
        self.losses.append((total + s.minibatch // 2) // s.minibatch)
        shapes = {t.name: t.shape for t in self.metadata.trainable}
        runtime.write_weights(
            {k: v.reshape(shapes[k]) for k, v in self.weights.items()},
            {k: v.reshape(shapes[k]) for k, v in self.fractions.items()},
        )

    def _differences(self, step: int, part: int, t: int, node: Array) -> Array:
        """Computes L(y + mu z) - L(y - mu z), [queries, batch]."""
        s, layer, task = self.s, self.layers[t], self.s.tasks[t]
        result = np.zeros((task.queries, s.batch), np.int64)
        flat = node.reshape(s.batch, layer.positions, -1)
        for q in range(task.queries):
            seed = s.seed(step, t, q)
            for side in (1, -1):
                moved = [
                    nodes.perturb(layer, flat[b], seed, part * s.batch + b, side * task.mu) for b in range(s.batch)
                ]
                boundary = np.array(moved).reshape(node.shape).astype(np.int8)
                self.runtime.invoke(self.runtime.command(), start=task.start_segment, boundary=boundary, keep=False)
                result[q] += side * self.runtime.losses().astype(np.int64)
        return result

    def _update(
        self, step: int, t: int, inputs: Array, outputs: Array, node: Array, differences: Array, labels: list[Array]
    ) -> None:
        s, layer = self.s, self.layers[t]
        loss = self.metadata.loss
        assert loss is not None
        given = None
        if self.exact[t]:
            logits = node.reshape(s.minibatch, -1).astype(np.int8)
            given = cross_entropy_error(logits, np.concatenate(labels), loss.scale)
        asking = self.asking[t]
        seeds = [s.seed(step, asking, q) for q in range(s.tasks[asking].queries)]
        e, shift = nodes.errors(layer, None if given is not None else differences, seeds, given, s.minibatch)
        g = nodes.gradient(layer, e, inputs, outputs)
        steps, self.means[t] = node_run.steps(g, shift, self.means[t], s.task_rate(step, t), s.clip)
        if steps is not None:
            self._move(step, t, steps, g[0].size)

    def _move(self, step: int, t: int, steps: list[int], row: int) -> None:
        tensor = self.metadata.trainable[self.metadata.nodes[t].trainable]
        limit, weights = 127 - self.metadata.headroom, self.weights[tensor.name]
        if tensor.name in self.multipliers:
            factors = self.multipliers[tensor.name]
            steps = [(v * int(factors[i // row]) + 2**30) >> 31 for i, v in enumerate(steps)]
        layer = self.layers[t]
        rows = rows_of(layer, weights).ravel()
        stored_fractions = self.fractions.get(tensor.name)
        fractions = None if stored_fractions is None else rows_of(layer, stored_fractions).ravel()
        node_run.move(rows, fractions, steps, limit, self.s.rounding_seed(step, t), tensor.stream, tensor.channels)
        if fractions is not None:
            self.fractions[tensor.name] = stored(layer, fractions)
        self.weights[tensor.name] = stored(layer, rows)
