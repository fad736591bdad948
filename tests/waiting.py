"""Waiting for what happens in its own time, instead of asserting it right after its cause."""

import time


def eventually(condition, seconds=30.0):
    """Whether a condition comes true before the deadline."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
