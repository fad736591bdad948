"""Waiting for what happens in its own time, instead of asserting it right after its cause."""

import time

PATIENCE = 600.0
"""Seconds until what should have happened counts as never happening: a busy machine is slow."""


def eventually(condition, seconds=PATIENCE):
    """Whether a condition comes true before the deadline."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
