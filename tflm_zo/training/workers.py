"""Worker processes of a run, on this machine or on others, which Ray starts."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from ..io.errors import SettingsError

# Times that a worker is replaced in a row before a run gives up: a model that kills its workers kills all.
_MOST_REPLACED = 3
# Seconds without an answer after which Ray is asked whether the worker is there: a machine that is switched
# off closes no connection.
_PATIENCE = 5.0


class WorkersError(RuntimeError):
    """Workers cannot be started, or die repeatedly; the message has advice."""


class Workers:
    """A pool of Ray actors that hold one object each. An actor that dies is replaced.

    Ray starts the actors and reports which ones are dead. Calls use a socket to each actor, because a call
    through Ray takes as long as a short step.

    Args:
        count: number of workers, >= 1; None: one for each core of the cluster.
        address: address of a Ray cluster that runs already and that this machine belongs to ("auto": the
            only one); None: that of the environment variable RAY_ADDRESS. Without either, a cluster starts on this
            machine, and ends with `stop`.
    """

    def __init__(self, count: int | None = None, address: str | None = None) -> None:
        if count is not None and (not isinstance(count, int) or count < 1):
            raise SettingsError("workers", "be a number >= 1", count)
        self._wanted, self._address = count, address
        self._ray: Any = None
        self._owns = False
        self._lines: list[_Line] = []

    @property
    def count(self) -> int:
        """Workers that have been started."""
        return len(self._lines)

    def start(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Creates the object of each worker; an older one is replaced. `make`, which is importable by name, creates it
        from `arguments`, which are sent once to each machine. Raises WorkersError if Ray is not installed, the cluster
        does not answer, or it has fewer cores than workers.
        """
        ray = self._started()
        given, key = [ray.put(argument) for argument in arguments], secrets.token_bytes(32)
        actor = ray.remote(num_cpus=1)(_Holder)
        self._new_line: Callable[[], _Line] = lambda: _Line(ray, actor.remote(make, *given), key)
        cores = int(ray.cluster_resources().get("CPU", 0))
        count = self._wanted or max(1, cores)
        if count > cores:  # Ray would wait for a core
            raise WorkersError(f"the Ray cluster has {cores} cores for {count} workers: start it with more")
        self._end_lines()
        self._lines = [self._new_line() for _ in range(count)]

    def _started(self) -> Any:
        try:
            import ray
        except ImportError as error:
            raise WorkersError("workers are Ray's: pip install 'tflm_zo[ray]'") from error
        if self._ray is None and not ray.is_initialized():
            # "local" starts a cluster, also on a machine that belongs to one.
            address, own = self._address or os.environ.get("RAY_ADDRESS") or "local", dict[str, Any]()
            if address == "local":
                own = {"num_cpus": self._wanted, "include_dashboard": False}
            before = signal.getsignal(signal.SIGTERM)
            try:
                ray.init(address, log_to_driver=False, logging_level="error", **own)
                # Ray's handler would end this process at once, in the middle of a step.
                if before is not None and threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGTERM, before)
            except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
                raise WorkersError(f"Ray does not answer at {address}: {error}") from error
            self._owns = True
        self._ray = ray
        return ray

    def call(self, method: str, calls: Sequence[tuple[Any, ...]], anew: Callable[[int], tuple[Any, ...]]) -> list[Any]:
        """Calls a method on the first workers in parallel, each with its own arguments. Returns the results in their
        order. `anew` returns the arguments for the worker of a number after it was replaced. Raises WorkersError if a
        worker died several times in a row, or does not accept a connection.
        """
        for worker, arguments in enumerate(calls):
            self._lines[worker].send(method, arguments)
        return [self._result(method, worker, anew) for worker in range(len(calls))]

    def _result(self, method: str, worker: int, anew: Callable[[int], tuple[Any, ...]]) -> Any:
        for _ in range(_MOST_REPLACED):
            try:
                return self._lines[worker].result()
            except _DeadError:
                self._lines[worker].end()
                self._lines[worker] = self._new_line()
                self._lines[worker].send(method, anew(worker))
        try:
            return self._lines[worker].result()
        except _DeadError as error:
            raise WorkersError(f"worker {worker} died {_MOST_REPLACED + 1} times in a row: {error}") from error

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops the workers, and the cluster if `start` started it."""
        self._end_lines()
        if self._owns:
            self._ray.shutdown()
        self._ray, self._owns = None, False

    def _end_lines(self) -> None:
        for line in self._lines:
            line.end()
        self._lines = []


class _DeadError(Exception):
    """A worker has died."""


class _Line:
    """The connection to one worker: the handle of a new `_Holder`, and a secret that both ends share."""

    def __init__(self, ray: Any, actor: Any, key: bytes) -> None:
        self._ray, self._actor, self._key = ray, actor, key
        # Workers start at the same time: the first call waits for them.
        self._address = actor.listen.remote(key)
        self._serving = actor.serve.remote()
        self._connection: Connection | None = None
        self._waits = False  # an answer is to come, or an interruption has left half a message
        self._error: BaseException | None = None  # why nothing was sent

    def _connected(self) -> Connection:
        address = self._ray.get(self._address)
        try:
            return _without_delay(Client(address, authkey=self._key))
        except OSError as error:
            if self._ray.wait([self._serving], timeout=1)[0]:
                raise  # it is dead
            raise WorkersError(
                f"a worker at {address[0]}:{address[1]} cannot be connected to: {error}; workers need ports "
                "that the driver's machine can reach"
            ) from error

    def send(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Sends a call. WorkersError: the worker accepts no connection. `result` raises errors of dead workers."""
        try:
            if self._waits:
                raise ConnectionError("its last call was interrupted")
            if self._connection is None:
                self._connection = self._connected()
            self._waits = True
            self._connection.send((method, arguments))
        except (OSError, EOFError, self._ray.exceptions.RayActorError) as error:
            self._error = error

    def result(self) -> Any:
        """Returns the result of the call, or raises its exception; _DeadError if the worker has died."""
        connection = self._connection
        if self._error is not None or connection is None:
            raise _DeadError(str(self._error)) from self._error
        try:
            while not connection.poll(_PATIENCE):
                if self._ray.wait([self._serving], timeout=0)[0]:
                    self._ray.get(self._serving)
            is_result, found = connection.recv()
        except (OSError, EOFError, self._ray.exceptions.RayActorError) as error:
            raise _DeadError(str(error)) from error
        self._waits = False
        if not is_result:
            raise found
        return found

    def end(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._ray.kill(self._actor)


class _Holder:
    """The actor: it holds the object and serves its method calls."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._object = make(*arguments)

    def listen(self, key: bytes) -> Any:
        """Opens a port and returns its address. The worker accepts one connection there."""
        import ray.util

        self._listener = Listener((ray.util.get_node_ip_address(), 0), authkey=key)
        return self._listener.address

    def serve(self) -> None:
        """Serves calls until the connection closes."""
        with (
            self._listener,
            _without_delay(self._listener.accept()) as connection,
            contextlib.suppress(EOFError, OSError),  # of the connection
        ):
            while True:
                method, arguments = connection.recv()
                try:
                    found = True, getattr(self._object, method)(*arguments)
                except Exception as error:
                    found = False, error
                connection.send(found)


def _without_delay(connection: Connection) -> Connection:
    """Disables Nagle's algorithm, so that each message is sent at once."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
