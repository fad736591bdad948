"""Worker processes of one BLAS thread each, which may hang or die without harm to the rest.

Not joblib: there a job that takes too long or a worker that dies ends the whole call, and the other
jobs are lost (joblib/joblib#522, #812).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from threadpoolctl import threadpool_limits

from flfl.errors import FLFLError

Job = dict[str, Any]
Task = Callable[[Job], dict[str, Any]]
"""From plain values to plain values; a function of a module, so that a new process finds it."""

_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_READY = b"ready"
_LOOK = 0.5
"""Seconds between two looks at workers that say nothing."""


@dataclass(frozen=True)
class Lost:
    """A job without a result: why, and after how many seconds."""

    reason: str
    seconds: float


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    ready: bool = False
    job: int | None = None
    since: float = 0.0

    def give(self, number: int, job: Job) -> bool:
        """Whether the worker got the job: it may have died while it waited."""
        since = time.monotonic()
        try:
            self.connection.send_bytes(json.dumps(job).encode())
        except OSError:
            return False
        self.job, self.since = number, since
        return True

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def run_all(
    task: Task, jobs: Sequence[Job], *, workers: int = 1, limit: float | None = None
) -> Iterator[tuple[int, dict[str, Any] | Lost]]:
    """Run every job in some worker; yield (number of the job, result) as they end.

    Parameters
    ----------
    workers : processes at most
    limit : seconds that a job may take; then its worker is ended and another one takes its place

    Raises
    ------
    FLFLError
        When a worker dies before it could be given anything.
    """
    waiting = list(enumerate(jobs))[::-1]
    crew: list[_Worker] = []
    try:
        while waiting or any(worker.job is not None for worker in crew):
            while waiting and len(crew) < min(workers, len(jobs)):
                crew.append(_hire(task))
            for worker in crew:
                idle = worker.ready and worker.job is None
                if idle and waiting and worker.give(*waiting[-1]):
                    waiting.pop()
            wait([worker.connection for worker in crew], timeout=_LOOK)
            for worker in list(crew):
                outcome = _hear(worker, limit)
                if outcome is None:
                    continue
                number, worker.job = worker.job, None
                if isinstance(outcome, Lost):
                    worker.stop()
                    crew.remove(worker)
                if number is not None:
                    yield number, outcome
    finally:
        for worker in crew:
            worker.stop()


def _hear(worker: _Worker, limit: float | None) -> dict[str, Any] | Lost | None:
    """What became of a worker's job; None while it is at it, or has none."""
    try:
        if worker.connection.poll():
            said = worker.connection.recv_bytes()
            if said == _READY:
                worker.ready = True
                return None
            return dict(json.loads(said))
    except (EOFError, OSError):
        worker.process.join()
        ending = f"the worker process died (exit code {worker.process.exitcode})"
        if not worker.ready:
            raise FLFLError(f"{ending} before it was given any work") from None
        return Lost(ending, worker.seconds)
    if limit is not None and worker.job is not None and worker.seconds > limit:
        return Lost(f"took longer than {limit:g} s", worker.seconds)
    return None


def _hire(task: Task) -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(task, there), daemon=True)
    process.start()
    # Only the worker holds its end now, so that its death closes the line.
    there.close()
    return _Worker(process, here)


def _work(task: Task, connection: Connection) -> None:
    """The worker's life: one job after the other, until nobody is left who asks."""
    # For libraries that the task imports; threadpool_limits is for those that are there already.
    os.environ.update(_ONE_THREAD)
    # Ctrl-C reaches every process of the terminal; the parent ends its workers, in silence.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with threadpool_limits(limits=1):
        connection.send_bytes(_READY)
        while True:
            try:
                job = json.loads(connection.recv_bytes())
            except EOFError:
                return
            connection.send_bytes(json.dumps(task(job)).encode())


def _die_with_parent() -> None:
    # A run that is killed must not leave workers behind that go on for hours.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
