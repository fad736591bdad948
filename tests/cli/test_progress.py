"""Progress is for terminals: there a line that goes away, elsewhere not a byte."""

import os
import pty
import subprocess
import sys
import time

import pytest

from flfl.cli import output


@pytest.fixture
def terminal(monkeypatch):
    """Lets a piece of work run where stderr is a terminal; gives what was shown."""
    mine, theirs = pty.openpty()

    def work(seconds):
        with os.fdopen(theirs, "w") as stderr:
            monkeypatch.setattr(sys, "stderr", stderr)
            with output.progress() as tell:
                tell("round 1 of at most 4", 1, 4)
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
    monkeypatch.setattr(output, "_QUIET", 0.05)
    shown = terminal(0.5)
    assert " s  [#####---------------] round 1 of at most 4" in shown
    assert shown.endswith("\r")
    assert "\n" not in shown


def test_nothing_of_what_is_short(terminal):
    assert terminal(0.1) == ""


def test_silent_when_piped(files, tmp_path):
    readings, _ = files
    arguments = ["recover", str(readings), "--out", str(tmp_path / "o.csv"), "--method", "linear"]
    done = subprocess.run([sys.executable, "-m", "flfl", *arguments], capture_output=True)
    assert done.returncode == 0
    assert done.stderr == b""
