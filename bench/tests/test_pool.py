"""Workers: results of all jobs, whatever becomes of one of them."""

import os
import time

import pytest

import jobs
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
    assert found[0] == found[2] == {"did": "answer"}
    assert isinstance(found[1], Lost)
    assert found[1].reason == "the worker process died (exit code -9)"


def test_a_worker_that_dies_while_it_waits_is_replaced():
    running = run_all(jobs.sometimes, [{"do": "leave"}, {"do": "answer"}])
    assert next(running) == (0, {"did": "leave"})
    time.sleep(0.5)
    assert list(running) == [(1, {"did": "answer"})]


def test_a_job_beyond_its_time_is_ended():
    found = dict(run_all(jobs.sometimes, [{"do": "hang"}, {"do": "answer"}], limit=2.0))
    assert found[0].reason == "took longer than 2 s"
    assert 2.0 < found[0].seconds < 60
    assert found[1] == {"did": "answer"}


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
