"""A bar where somebody looks, and nowhere else."""

from types import SimpleNamespace

import numpy as np
import pytest

from flfl import recover
from flfl.recovery.progress import bar


class Screen:
    """A terminal that remembers what was written to it."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


@pytest.fixture
def screen(monkeypatch):
    pytest.importorskip("tqdm")
    made = Screen()
    # Pytest puts its own stderr back when a test begins.
    here = SimpleNamespace(stderr=made, modules={})
    monkeypatch.setattr("flfl.recovery.progress.sys", here)
    return made


def test_a_terminal_shows_the_rounds(screen):
    with bar(None, 1) as tell:
        for done in range(1, 4):
            tell(done, 3)
    assert "rounds" in screen.text


@pytest.mark.parametrize(("given", "verbose"), [(None, 0), (lambda done, total: None, 1)])
def test_quiet_where_asked_and_where_the_caller_has_a_bar(screen, given, verbose):
    with bar(given, verbose) as tell:
        assert tell is given
    assert screen.text == ""


def test_nothing_is_written_to_a_file(capsys):
    values = np.column_stack([np.sin(np.arange(150) / 9 + i) for i in range(4)])
    values[20:24, 0] = np.nan
    recover(values, effort="quick", self_test=False)
    assert capsys.readouterr().err == ""
