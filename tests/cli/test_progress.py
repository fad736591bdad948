"""Progress is for terminals: there a line that goes away, elsewhere not a byte."""

import os
import pty
import subprocess
import sys
import time

import pytest

from flfl.cli.say import Progress


@pytest.fixture
def terminal(monkeypatch):
    """Lets a piece of work run where stderr is a terminal; gives what was shown."""
    mine, theirs = pty.openpty()

    def work(seconds):
        with os.fdopen(theirs, "w") as stderr:
            monkeypatch.setattr(sys, "stderr", stderr)
            with Progress() as progress:
                progress.rounds(1, 4)
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


def test_a_line_after_two_seconds_that_is_wiped(terminal):
    shown = terminal(2.4)
    assert "2 s  [#####---------------] round 1 of at most 4" in shown
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
