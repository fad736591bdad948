"""Workers: results of all jobs, whatever becomes of one of them."""

import os
from multiprocessing import active_children

import pytest

import jobs
from flfl_bench import pool
from flfl_bench.pool import Lost, run_all


def test_every_job_has_its_result_whoever_did_it():
    found = dict(run_all(jobs.double, [{"number": n} for n in range(7)], workers=2))
    assert {n: one["double"] for n, one in found.items()} == {n: 2 * n for n in range(7)}
    pids = {one["pid"] for one in found.values()}
    assert os.getpid() not in pids
    assert len(pids) <= 2


def test_a_dead_worker_loses_its_job_and_no_other():
    asked = ["answer", "die", "answer"]
    found = dict(run_all(jobs.sometimes, [{"do": do} for do in asked]))
    assert found[0]["did"] == found[2]["did"] == "answer"
    assert isinstance(found[1], Lost)
    assert found[1].reason == "the worker process died (exit code -9)"


def test_a_worker_that_dies_while_it_waits_is_replaced():
    running = run_all(jobs.sometimes, [{"do": "leave"}, {"do": "answer"}])
    number, left = next(running)
    assert (number, left["did"]) == (0, "leave")
    for child in active_children():
        if child.pid == left["pid"]:
            child.join()
    ((number, answered),) = running
    assert (number, answered["did"]) == (1, "answer")
    assert answered["pid"] != left["pid"]


class Clock:
    """Stands still until a job has begun to hang; then an hour has passed."""

    def __init__(self, mark):
        self.mark = mark

    def monotonic(self):
        return 3600.0 * self.mark.exists()


def test_a_job_beyond_its_time_is_ended(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    monkeypatch.setattr(pool, "time", Clock(mark))
    asked = [{"do": "hang", "mark": str(mark)}, {"do": "answer"}]
    found = dict(run_all(jobs.sometimes, asked, limit=2.0))
    assert found[0] == Lost("took longer than 2 s", 3600.0)
    assert found[1]["did"] == "answer"


def test_workers_have_one_thread_each_and_the_caller_keeps_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    ((_, found),) = run_all(jobs.threads, [{}])
    assert found["threads"]
    assert set(found["threads"]) == {1}
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("workers", [1, 3])
def test_nothing_to_do_hires_nobody(workers):
    assert list(run_all(jobs.double, [], workers=workers)) == []
