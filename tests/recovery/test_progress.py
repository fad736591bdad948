"""Progress is for notebooks and terminals: there a line that goes away, elsewhere not a byte."""

import os
import pty
import subprocess
import sys
import time

import numpy as np
import pytest

from flfl import recover
from flfl.recovery import progress


@pytest.fixture
def terminal(monkeypatch):
    """Lets a piece of work run where stderr is a terminal; gives what was shown."""
    mine, theirs = pty.openpty()

    def work(seconds, verbose=1):
        with os.fdopen(theirs, "w") as stderr:
            monkeypatch.setattr(sys, "stderr", stderr)
            with progress.shown(verbose) as tell:
                progress.rounds(tell)(1, 4)
                time.sleep(seconds)
            monkeypatch.undo()
        return _read_all(mine)

    yield work
    os.close(mine)


def _read_all(end):
    shown = b""
    try:
        while chunk := os.read(end, 4096):
            shown += chunk
    except OSError:  # the other end is closed and everything is read
        pass
    return shown.decode()


def test_a_line_that_is_wiped(terminal, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET", 0.05)
    shown = terminal(0.5)
    assert "round 1 of at most 4" in shown
    assert "00:00" in shown
    assert not shown.rstrip("\r").rpartition("\r")[2].strip()
    assert "\n" not in shown


@pytest.mark.parametrize(("quiet", "verbose"), [(2.0, 1), (0.01, 0)])
def test_nothing_of_what_is_short_or_quiet(terminal, monkeypatch, quiet, verbose):
    monkeypatch.setattr(progress, "_QUIET", quiet)
    assert terminal(0.1, verbose) == ""


def test_nothing_is_written_to_a_file(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET", 0.0)
    values = np.column_stack([np.sin(np.arange(150) / 9 + i) for i in range(4)])
    values[20:24, 0] = np.nan
    recover(values, effort="quick", self_test=False)
    assert capsys.readouterr().err == ""


def test_the_callers_own_is_told_the_rounds():
    values = np.column_stack([np.sin(np.arange(150) / 9 + i) for i in range(4)])
    values[20:24, 0] = np.nan
    told = []
    recover(values, effort="quick", self_test=False, progress=lambda *one: told.append(one))
    assert told
    assert all(done <= total for done, total in told)


@pytest.mark.parametrize("options", [(), pytest.param(("--quiet",), marks=pytest.mark.slow)])
def test_silent_when_piped(options, tmp_path):
    readings = tmp_path / "r.csv"
    readings.write_text("time,a,b\n" + "".join(f"{i},{i % 5},{i % 7}\n" for i in range(90)))
    arguments = [*options, "recover", str(readings), "--out", str(tmp_path / "o.csv"),
                 "--method", "linear"]  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "flfl", *arguments], capture_output=True)
    assert done.returncode == 0
    assert done.stderr == b""
