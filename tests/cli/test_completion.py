"""Completion as a shell asks for it: click's protocol, run in a process of its own."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete

from flfl.cli import main


def question(words):
    """What bash sets when the cursor stands at the last word."""
    return {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}


@pytest.fixture
def ask(monkeypatch):
    def completions(*words):
        for name, value in question(words).items():
            monkeypatch.setenv(name, value)
        return answers(BashComplete(main, {}, "flfl", "_FLFL_COMPLETE").complete())

    return completions


def answers(text):
    return [line.partition(",")[2] for line in text.splitlines()]


def test_the_installed_command_answers_a_shell():
    environment = os.environ | question(["flfl", "recover", "--method", "flfl"])
    asked = subprocess.run(
        [sys.executable, "-m", "flfl"],
        env=environment | {"_FLFL_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answers(asked.stdout) == ["flfl", "flfl-paper"]


def test_verbs_options_and_methods(ask):
    assert {"recover", "evaluate"} <= set(ask("flfl", ""))
    assert "--max-gap" in ask("flfl", "recover", "--max")
    assert ask("flfl", "evaluate", "--methods", "flfl,lin") == ["flfl,linear"]
