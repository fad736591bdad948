"""One process for each state folder: two that write one journal would destroy it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO

from flfl.errors import InputError, explained

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without it
    fcntl = None  # type: ignore[assignment]


def hold(folder: Path, patience: float = 0.0) -> IO[bytes]:
    """Make a private folder and keep other processes out of it until the returned file is closed.

    ``patience`` is how many seconds another process may still have it.

    Raises
    ------
    InputError
        When the folder cannot be made, or another process has it.
    """
    remedy = "Give a state folder that can be written"
    with explained("the state folder cannot be used", where=str(folder), remedy=remedy):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (folder / "lock").open("ab")
    until = time.monotonic() + patience
    while fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(0.1)
                continue
            file.close()
            raise InputError(
                "another process is at work with this state folder",
                where=str(folder),
                remedy="Stop that one first, or give each party a state folder of its own; for"
                " another network give this owner's sites the same copies folder",
            ) from None
    return file
