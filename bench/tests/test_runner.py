"""Whole runs of `flfl-bench run`, in processes of their own, killed ones too."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from flfl_bench.cli import main
from flfl_bench.store import SCORES, TIMINGS

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
    out = tmp_path_factory.mktemp("benchmark") / "out"
    done = benchmark(SMALL, out, "--workers", "2")
    return out, done


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


def test_pieces_and_a_killed_run_end_with_the_same_files(finished, tmp_path):
    out = tmp_path / "out"
    benchmark(SMALL, out, "--only", "linear", "--rates", "0.8")
    assert len(pd.read_parquet(out / "rows.parquet")) == 2
    (out / "rows.parquet").unlink()
    started = time.monotonic()
    running = subprocess.Popen(
        command(SMALL, out, "--workers", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while len(list((out / "cells").glob("*.json"))) < 5 and time.monotonic() - started < 400:
        time.sleep(0.05)
    workers = children(running.pid)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    finished_before = {path.name: path.stat().st_mtime_ns for path in cells(out)}
    assert 5 <= len(finished_before) < 16
    assert not (out / "rows.parquet").exists()
    assert workers
    assert gone(workers)
    benchmark(SMALL, out, "--workers", "2")
    assert same_every_time(out) == same_every_time(finished[0])
    now = {path.name: path.stat().st_mtime_ns for path in cells(out)}
    assert finished_before.items() <= now.items()  # what was finished is not run again


def cells(out):
    return [path for path in (out / "cells").iterdir() if path.suffix == ".json"]


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pids):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not any(_alive(pid) for pid in pids):
            return True
        time.sleep(0.1)
    return False


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_fails_is_a_row_with_its_reason_and_the_rest_goes_on(tmp_path):
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


def test_a_cell_beyond_its_time_is_a_failed_row(tmp_path):
    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text(
        '[[data]]\nname = "made"\nmade = {sensors = 40, slots = 6000}\n'
        '[[run]]\ndata = ["made"]\nrates = [0.5]\nmethods = ["flfl-paper"]\n'
        '[[run]]\ndata = ["made"]\nrates = [0.5]\nmethods = ["mean"]\nseconds = 1\n',
        encoding="utf-8",
    )
    told = json.loads(benchmark(path, out, "--json", "--workers", "1", "--limit", "5").stdout)
    assert [row["failed"] for row in told["rows"]] == ["took longer than 5 s", None]


def test_an_audited_cell_says_what_was_read(tmp_path):
    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text(
        MADE + '[[run]]\ndata = ["made"]\nrates = [0.7]\nmethods = ["flfl-paper"]\naudit = true\n'
        "options = {rounds = 20}\n",
        encoding="utf-8",
    )
    (row,) = json.loads(benchmark(path, out, "--json", "--workers", "1").stdout)["rows"]
    assert row["failed"] is None
    # Plain uploads give the readings away.
    assert row["exposure_worst"] > 0.9
    assert row["audit_seconds"] > 0


def test_a_cell_file_that_is_none_is_named(finished, tmp_path):
    out = tmp_path / "out"
    (out / "cells").mkdir(parents=True)
    for path in cells(finished[0]):
        (out / "cells" / path.name).write_text("{", encoding="utf-8")
    done = CliRunner().invoke(main, command(SMALL, out)[3:])
    assert done.exit_code == 2
    assert "this is not the result of a cell. Delete the file." in done.stderr
