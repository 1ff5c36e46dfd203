# Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
"""Processes that do parts of a run, on this machine or on others: Ray's actors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Workers", "WorkersError"]

# Times that a worker is replaced in a row before a run gives up: a model that kills its workers kills all.
_MOST_REPLACED = 3


class WorkersError(RuntimeError):
    """Workers cannot be started, or keep dying; the message says what to do."""


class Workers:
    """A number of processes that have an object each, made by the same function of the same arguments: Ray's
    actors, which are replaced where they die.

    Args:
        count: number of workers, >= 1; None: one for each core of the cluster.
        address: address of a Ray cluster that runs already ("auto": the one of this machine); None starts
            one on this machine, which ends with `stop`.
    """

    def __init__(self, count: int | None = None, address: str | None = None) -> None:
        if count is not None and (not isinstance(count, int) or count < 1):
            raise ValueError(f"workers: expected a number >= 1, got {count!r}")
        self._wanted, self._address = count, address
        self._ray: Any = None
        self._owns = False
        self._actors: list[Any] = []

    @property
    def count(self) -> int:
        """Workers that have been started."""
        return len(self._actors)

    def start(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Gives each worker its object, in the place of one that it has had.

        Args:
            make: function that makes the object, by name in an importable module.
            arguments: its arguments, which are sent once to each machine.

        Raises:
            WorkersError: Ray is not installed, or the cluster does not answer, or has fewer cores than
                workers.
        """
        ray = self._started()
        given = [ray.put(argument) for argument in arguments]
        actor = ray.remote(num_cpus=1)(_Holder)
        self._new_actor: Callable[[], Any] = lambda: actor.remote(make, *given)
        cores = int(ray.cluster_resources().get("CPU", 0))
        count = self._wanted or max(1, cores)
        if count > cores:  # Ray would wait for a core
            raise WorkersError(f"the Ray cluster has {cores} cores for {count} workers: start it with more")
        self._end_actors()
        self._actors = [self._new_actor() for _ in range(count)]

    def _started(self) -> Any:
        try:
            import ray
        except ImportError as error:
            raise WorkersError("workers are Ray's: pip install 'tflm_zo[ray]'") from error
        if self._ray is None and not ray.is_initialized():
            own: dict[str, Any] = (
                {} if self._address else {"num_cpus": self._wanted, "include_dashboard": False}
            )
            try:
                ray.init(
                    self._address,
                    log_to_driver=False,
                    logging_level="error",
                    **({} if self._address else own),
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise WorkersError(f"Ray does not answer at {self._address}: {error}") from error
            self._owns = True
        self._ray = ray
        return ray

    def put(self, value: Any) -> Any:
        """Sends a value to the workers' machines once; what is returned stands for it among arguments."""
        return self._ray.put(value)

    def call(
        self, method: str, calls: Sequence[tuple[Any, ...]], anew: Callable[[int], tuple[Any, ...]]
    ) -> list[Any]:
        """Calls a method of the first workers' objects, all at the same time.

        Args:
            method: name of the method.
            calls: arguments for each worker.
            anew: function that returns the arguments for a worker whose predecessor has died.

        Returns:
            What the methods return, in order.

        Raises:
            WorkersError: workers keep dying.
        """
        waiting = [self._actors[k].call.remote(method, *arguments) for k, arguments in enumerate(calls)]
        return [self._result(method, k, result, anew) for k, result in enumerate(waiting)]

    def _result(self, method: str, worker: int, waiting: Any, anew: Callable[[int], tuple[Any, ...]]) -> Any:
        for _ in range(_MOST_REPLACED):
            try:
                return self._ray.get(waiting)
            except self._ray.exceptions.RayActorError:
                self._actors[worker] = self._new_actor()
                waiting = self._actors[worker].call.remote(method, *anew(worker))
        try:
            return self._ray.get(waiting)
        except self._ray.exceptions.RayActorError as error:
            raise WorkersError(
                f"worker {worker} died {_MOST_REPLACED + 1} times in a row: {error}"
            ) from error

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the workers, and the cluster where it was started for them."""
        self._end_actors()
        if self._owns:
            self._ray.shutdown()
        self._ray, self._owns = None, False

    def _end_actors(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []


class _Holder:
    """A worker's process."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._object = make(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._object, method)(*arguments)
