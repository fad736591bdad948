"""Worker processes of one BLAS thread each, which may hang or die without harm to the rest."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from threadpoolctl import threadpool_limits

Job = dict[str, Any]
Task = Callable[[Job], dict[str, Any]]
"""From plain values to plain values; a function of a module, so that a new process finds it."""

# Read by the numeric libraries when they are first imported, in the new process.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
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
    job: int | None = None
    since: float = field(default_factory=time.monotonic)

    def give(self, number: int, job: Job) -> None:
        self.job, self.since = number, time.monotonic()
        self.connection.send_bytes(json.dumps(job).encode())

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
    """Run every job in a process of its own kind; yield (number of the job, result) as they end.

    Parameters
    ----------
    workers : processes at most
    limit : seconds that a job may take; then its worker is ended and another one takes its place
    """
    waiting = list(enumerate(jobs))[::-1]
    crew: list[_Worker] = []
    try:
        while waiting or any(worker.job is not None for worker in crew):
            while waiting and len(crew) < workers:
                crew.append(_hire(task))
            for worker in crew:
                if worker.job is None and waiting:
                    worker.give(*waiting.pop())
            for worker in _heard(crew):
                number = worker.job
                outcome = _outcome(worker, limit)
                if outcome is None or number is None:
                    continue
                if isinstance(outcome, Lost):
                    worker.stop()
                    crew.remove(worker)
                worker.job = None
                yield number, outcome
    finally:
        for worker in crew:
            worker.stop()


def _heard(crew: Sequence[_Worker]) -> list[_Worker]:
    """The busy workers, after one of them has spoken or died, or a while has passed."""
    busy = [worker for worker in crew if worker.job is not None]
    wait([worker.connection for worker in busy], timeout=_LOOK)
    return busy


def _outcome(worker: _Worker, limit: float | None) -> dict[str, Any] | Lost | None:
    """What became of a worker's job; None while it is at it."""
    try:
        if worker.connection.poll():
            return dict(json.loads(worker.connection.recv_bytes()))
    except (EOFError, OSError):
        worker.process.join()
        code = worker.process.exitcode
        return Lost(f"the worker process died (exit code {code})", worker.seconds)
    if limit is not None and worker.seconds > limit:
        return Lost(f"took longer than {limit:g} s", worker.seconds)
    return None


def _hire(task: Task) -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(task, there), daemon=True)
    with _environment(_ONE_THREAD):
        process.start()
    # Only the worker holds its end now, so that its death closes the line.
    there.close()
    return _Worker(process, here)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(task: Task, connection: Connection) -> None:
    """The worker's life: one job after the other, until nobody is left who asks."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with threadpool_limits(limits=1):
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
