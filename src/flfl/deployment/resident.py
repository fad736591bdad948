"""A site's process that stays from letter to letter.

Flower starts a process for every letter. One that had to read all that came before would take
longer with each: so the first letter starts the site's own process, and the others knock at its
door. It ends when the run is over, or when no letter comes for a while. Killed at any moment, it
is started again by the next letter and goes on from the site's disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from flfl.deployment.config import SiteConfig, read_config
from flfl.engines.door import NobodyError, knock
from flfl.engines.letters import Letter
from flfl.errors import FLFLError, explained

DOOR, LOG = "door.sock", "resident.log"
HELD = 75
"""Exit code of one that found another at work."""
_START_SECONDS = 60.0
_ANSWER_SECONDS = 86400.0
"""Seconds for an answer; the coordinator's own deadlines are shorter."""
_started: list[subprocess.Popen[bytes]] = []
"""Held, since they are not waited for: Python warns of a child that is dropped."""


def call_on(path: Path, letter: Letter) -> Letter:
    """Bring a letter to the process of the site with these settings, started where it is not there.

    Raises
    ------
    FLFLError
        When it cannot be started, with its last word.
    """
    state = read_config(path, SiteConfig).state
    try:
        return knock(state / DOOR, letter, _ANSWER_SECONDS)
    except NobodyError:
        process = _start(path, state)
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        time.sleep(0.05)
        try:
            return knock(state / DOOR, letter, _ANSWER_SECONDS)
        except NobodyError:
            # Held: another letter started one a moment earlier, and that one will answer.
            if process.poll() not in (None, HELD):
                break
    raise FLFLError(f"the site's process did not start: {_last_word(state / LOG)}")


def _start(path: Path, state: Path) -> subprocess.Popen[bytes]:
    remedy = "Give a state folder that can be written"
    with explained("the site's process cannot be started", where=str(state), remedy=remedy):
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Errors quote readings: the owner's alone.
        number = os.open(state / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(number, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "flfl.deployment.run_site", str(path), "--resident"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # It must outlive the process of this letter.
                start_new_session=True,
            )
    _started.append(process)
    return process


def _last_word(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it ended without a word"
