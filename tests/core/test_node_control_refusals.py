"""Refusals of the control unit of node perturbation, and its unchanged state afterwards."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.test_node_control import LAYERS, LOSS, World, integers, make, of_layer
from helpers.oracle.node_run import ONE, Settings, Task
from tflm_zo.core import NativeError, NodeAction, NodeControl, NodeTask, Status

BAD = {
    "no tasks": ({}, (), Status.ARGUMENT),
    "too many tasks": ({}, tuple(Task(1, 1) for _ in range(65)), Status.ARGUMENT),
    "Q = 33": ({}, (Task(1, 33),), Status.QUERIES),
    "mu = 0": ({}, (Task(1, 1, mu=0),), Status.ARGUMENT),
    "mu = 128": ({}, (Task(1, 1, mu=128),), Status.ARGUMENT),
    "a task's rate": ({}, (Task(1, 1, rate=2**24),), Status.ARGUMENT),
    "clip 0": ({"clip": 0}, (Task(1, 1),), Status.ARGUMENT),
    "clip": ({"clip": 2**24 + 1}, (Task(1, 1),), Status.ARGUMENT),
    "rate 0": ({"rate": 0}, (Task(1, 1),), Status.ARGUMENT),
    "rate": ({"rate": 2**31}, (Task(1, 1),), Status.ARGUMENT),
    "final rate": ({"final_rate": ONE + 1}, (Task(1, 1),), Status.ARGUMENT),
    "no steps": ({"steps": 0}, (Task(1, 1),), Status.ARGUMENT),
    "no samples": ({"samples": 0}, (Task(1, 1),), Status.ARGUMENT),
    "positions beyond 32 bits": ({"steps": 2**31, "batch": 2}, (Task(1, 1),), Status.ARGUMENT),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings(name: str) -> None:
    changes, tasks, status = BAD[name]
    with pytest.raises(NativeError) as error:
        make(replace(Settings(tasks), **changes))
    assert error.value.status == status


@pytest.mark.parametrize("field", ["gradient_norm", "blocks"])
def test_settings_of_weight_perturbation_are_refused(field: str) -> None:
    c = integers(Settings((Task(1, 1),)))
    setattr(c, field, 1)
    with pytest.raises(NativeError) as error:
        NodeControl(c, 0, [NodeTask(LAYERS[0], 1, 1)])
    assert error.value.status == Status.ARGUMENT


def test_an_exact_head_behind_a_pooling_is_refused() -> None:
    for layer in LAYERS[1:3]:
        with pytest.raises(NativeError):
            NodeControl(integers(Settings((Task(1, 1),))), 0, [NodeTask(layer, 1, 0)])


def test_wrong_order_and_sizes() -> None:
    s = Settings((Task(1, 1), Task(2, 0)), steps=1)
    control = make(s)
    inputs, outputs, nodes, labels = World(s).activations(0, 0, 0)
    weights = np.zeros(35, np.int8)

    def refused(call: Any, *arguments: Any) -> None:
        before = bytes(control.struct)
        with pytest.raises((NativeError, TypeError, ValueError)):
            call(*arguments)
        assert bytes(control.struct) == before

    assert control.next().action == NodeAction.FORWARD
    refused(control.perturb, nodes)
    refused(control.update, of_layer(weights))
    refused(control.capture, 1, inputs, outputs, nodes)  # it is a head
    refused(control.capture_head, 0, inputs, nodes, LOSS, labels)  # it is none
    refused(control.capture, 0, inputs[:1], outputs, nodes)
    refused(control.capture, 0, inputs, outputs[:1], nodes)
    refused(control.capture, 0, inputs, outputs, nodes[:1])
    refused(control.capture_head, 1, inputs, nodes, LOSS, labels[:1])
    refused(control.capture_head, 1, inputs, nodes, LOSS, np.full(2, 5, np.int32))
    refused(control.report, np.zeros(3, np.int32))
    control.capture(0, inputs, outputs, nodes)
    control.report(np.zeros(2, np.int32))
    assert control.next().action == NodeAction.QUERY
    refused(control.capture, 0, inputs, outputs, nodes)
    refused(control.perturb, nodes[:1])
    refused(control.report, np.zeros(2, np.int64))
    for _ in range(2):
        control.report(np.zeros(2, np.int32))
    assert control.next().action == NodeAction.UPDATE
    refused(control.report, np.zeros(2, np.int32))
    refused(control.update, of_layer(np.zeros(30, np.int8)))
    refused(control.update, of_layer(weights, limit=0))
    refused(control.resume, 2, control.states)


SHARED_LAYER = LAYERS[0]


@pytest.mark.parametrize(
    "tasks",
    [
        [NodeTask(SHARED_LAYER, 1, 0, shared=True)],
        [NodeTask(SHARED_LAYER, 1, 0), NodeTask(SHARED_LAYER, 1, 0, shared=True)],  # behind an exact head
        [NodeTask(LAYERS[1], 1, 1), NodeTask(SHARED_LAYER, 1, 0, shared=True)],  # other nodes
        [NodeTask(SHARED_LAYER, 1, 1), NodeTask(SHARED_LAYER, 1, 1, shared=True)],  # queries of its own
    ],
    ids=["first", "behind an exact head", "other nodes", "with queries"],
)
def test_nodes_are_shared_with_the_task_before(tasks: list[NodeTask]) -> None:
    c = integers(Settings((Task(1, 1),)))
    with pytest.raises(NativeError) as error:
        NodeControl(c, 0, tasks)
    expected = Status.QUERIES if tasks[-1].queries else Status.ARGUMENT
    assert error.value.status == expected
    NodeControl(c, 0, [NodeTask(SHARED_LAYER, 1, 1), *[NodeTask(SHARED_LAYER, 1, 0, shared=True)] * 2])
