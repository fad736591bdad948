"""Whole runs of `flfl-bench run`, in processes of their own, killed ones too."""

import json
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from flfl.evaluation import peak_memory
from flfl_bench.cli import main
from flfl_bench.pool import Lost
from flfl_bench.runner import give_back_memory
from flfl_bench.store import SCORES, TIMINGS
from waiting import eventually

SMALL = Path(__file__).with_name("small.toml")
MADE = '[[data]]\nname = "made"\nmade = {sensors = 9, slots = 150, rank = 2}\n'


def command(experiment, out, *options):
    return [sys.executable, "-m", "flfl_bench", "run", str(experiment), "--out", str(out), *options]


def benchmark(experiment, out, *options):
    done = CliRunner().invoke(main, command(experiment, out, *options)[3:])
    assert done.exit_code == 0, done.stderr
    return done


def same_every_time(folder):
    """All files that must not differ from run to run, by name."""
    kept = [folder / "scores.parquet"]
    kept += [path for name in ("tables", "figures") for path in (folder / name).iterdir()]
    return {path.name: path.read_bytes() for path in kept}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A whole run in a worker process."""
    out = tmp_path_factory.mktemp("benchmark") / "out"
    done = benchmark(SMALL, out, "--workers", "1")
    return out, done


@pytest.fixture
def here(monkeypatch):
    """Cells are run in this process: starting workers is most of the cost of a small run."""

    def run_here(task, jobs, *, workers, limit):
        yield from ((number, task(job)) for number, job in enumerate(jobs))

    monkeypatch.setattr("flfl_bench.runner.run_all", run_here)


@pytest.mark.slow
def test_rows_hold_scores_versions_machine_and_costs(finished):
    out, done = finished
    rows = pd.read_parquet(out / "rows.parquet")
    assert list(rows.columns) == [*SCORES, *TIMINGS]
    assert len(rows) == 16
    assert rows["failed"].isna().all()
    told = ["mae", "rmse", "seconds", "cpu_seconds", "peak_mb", "cores", "cpu", "numpy", "python"]
    assert rows[told].notna().all().all()
    ours = rows[rows["label"] == "flfl"]
    assert (ours[["rounds", "bytes_up", "bytes_down", "coverage"]] > 0).all().all()
    assert (rows[rows["label"] == "lfa"]["settings"].map(json.loads).map(len) > 0).all()
    assert "16 of 16 cells" in done.stderr


KILLED = """
import os, signal, sys
from pathlib import Path
from flfl_bench.experiment import read_experiment
from flfl_bench.runner import run_cells
from flfl_bench.store import Store

def end(progress):
    if progress.done >= 5:
        print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    cells = read_experiment(sys.argv[1]).cells
    run_cells(cells, Store(Path(sys.argv[2])), workers=1, report=end)
"""
"""A run that is killed when five cells are done; it names its workers first."""


@pytest.mark.slow
def test_pieces_end_with_the_same_files(finished, tmp_path, here):
    out = tmp_path / "out"
    benchmark(SMALL, out, "--only", "linear", "--rates", "0.8")
    assert len(pd.read_parquet(out / "rows.parquet")) == 2
    before = {path.name: path.stat().st_mtime_ns for path in cells(out)}
    benchmark(SMALL, out)
    assert same_every_time(out) == same_every_time(finished[0])
    now = {path.name: path.stat().st_mtime_ns for path in cells(out)}
    assert before.items() <= now.items()  # what was finished is not run again


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_files(finished, tmp_path):
    out, script = tmp_path / "out", tmp_path / "killed.py"
    script.write_text(KILLED, encoding="utf-8")
    killed = subprocess.run(
        [sys.executable, str(script), str(SMALL), str(out)], capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    finished_before = {path.name: path.stat().st_mtime_ns for path in cells(out)}
    assert len(finished_before) == 5
    workers = [int(pid) for pid in killed.stdout.split()]
    assert workers
    assert gone(workers)
    benchmark(SMALL, out, "--workers", "2")
    assert same_every_time(out) == same_every_time(finished[0])
    now = {path.name: path.stat().st_mtime_ns for path in cells(out)}
    assert finished_before.items() <= now.items()  # what was finished is not run again


def cells(out):
    return [path for path in (out / "cells").iterdir() if path.suffix == ".json"]


def gone(pids):
    return eventually(lambda: not any(_alive(pid) for pid in pids))


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_fails_is_a_row_with_its_reason_and_the_rest_goes_on(tmp_path, here):
    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text(
        MADE
        + '[[variant]]\nlabel = "two"\nmethod = "flfl"\noptions = {secure = true, n_regions = 2}\n'
        '[[run]]\ndata = ["made"]\nrates = [0.5]\nmethods = ["two", "linear"]\n',
        encoding="utf-8",
    )
    done = benchmark(path, out, "--json", "--workers", "1")
    told = json.loads(done.stdout)
    assert told["table"] == str(out / "rows.parquet")
    lost, fine = told["rows"]
    assert lost["failed"].startswith("InputError: secure: secure sums need 3 sites")
    assert (lost["label"], lost["mae"]) == ("two", None)
    assert fine["mae"] > 0
    (kept,) = [p for p in cells(out) if "InputError" in p.read_text(encoding="utf-8")]
    before = kept.stat().st_mtime_ns
    again = benchmark(path, out, "--again", "two", "--workers", "1")
    assert kept.stat().st_mtime_ns > before
    assert "Failed: two on made, random 0.5, seed 0: InputError" in again.stdout


def test_a_lost_cell_is_a_failed_row(tmp_path, monkeypatch):
    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text(
        MADE + '[[run]]\ndata = ["made"]\nrates = [0.5]\nmethods = ["linear", "mean"]\n',
        encoding="utf-8",
    )

    def lose_the_first(task, jobs, *, workers, limit):
        assert limit == 5
        yield 0, Lost("took longer than 5 s", 5.1)
        yield 1, task(jobs[1])

    monkeypatch.setattr("flfl_bench.runner.run_all", lose_the_first)
    told = json.loads(benchmark(path, out, "--json", "--limit", "5").stdout)
    assert [row["failed"] for row in told["rows"]] == ["took longer than 5 s", None]


def test_an_audited_cell_says_what_was_read(tmp_path, here):
    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text(
        MADE + '[[run]]\ndata = ["made"]\nrates = [0.7]\nmethods = ["flfl-paper"]\naudit = true\n'
        "options = {rounds = 20}\n",
        encoding="utf-8",
    )
    (row,) = json.loads(benchmark(path, out, "--json", "--workers", "1").stdout)["rows"]
    assert row["failed"] is None
    # Plain uploads give the readings away.
    assert row["readings_exposed"] > 0.9
    assert row["audit_seconds"] > 0


def test_a_cell_file_that_is_none_is_named(tmp_path, here):
    out = tmp_path / "out"
    benchmark(SMALL, out, "--only", "linear", "--rates", "0.8")
    for path in cells(out):
        path.write_text("{", encoding="utf-8")
    done = CliRunner().invoke(main, command(SMALL, out)[3:])
    assert done.exit_code == 2
    assert "this is not the result of a cell. Delete the file." in done.stderr


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_what_an_earlier_cell_held_on_to_does_not_hide_the_peak_of_the_next():
    def fill():
        with peak_memory() as memory:
            small = [bytes(1000) for _ in range(40_000)]
            time.sleep(0.05)
        del small
        return memory.peak_mb

    # Pieces that stay keep the heap from shrinking by itself.
    before = [bytes(1000) for _ in range(40_000)]
    stay = before[::100]
    del before
    give_back_memory()
    assert fill() > 30
    del stay
