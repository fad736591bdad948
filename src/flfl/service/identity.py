"""A site's identity and the list of sites, from their files.

Apart from certificates, whose library is large: a site that waits does without it.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from flfl.errors import InputError, explained
from flfl.secagg import Identity, Roster

OWN = "Give this party's own files"


def load_identity(path: Path) -> Identity:
    """A site's identity from its file."""
    check_private(path)
    text = read_text(path, "See `flfl keys site`").strip()
    try:
        return Identity.from_bytes(bytes.fromhex(text))
    except ValueError:
        raise InputError("this is not an identity", where=str(path), remedy=OWN) from None


def load_roster(path: Path) -> Roster:
    """The list of sites from its file."""
    text = read_text(path, "See `flfl keys roster`")
    try:
        document = json.loads(text)
        keys = {str(name): bytes.fromhex(key) for name, key in document["sites"].items()}
        return Roster(keys, int(document["threshold"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        remedy = "Get roster.json from the operators again"
        raise InputError("this is not a roster", where=str(path), remedy=remedy) from None


def check_private(path: Path) -> None:
    """Refuse a secret that everybody on this machine can read."""
    with explained("the file cannot be read", where=str(path), remedy="See `flfl keys`"):
        mode = path.stat().st_mode
    if os.name == "posix" and mode & stat.S_IRWXO:
        raise InputError(
            "everybody on this machine has a right to this secret file",
            where=str(path),
            remedy=f"Take it away with `chmod 600 {path.name}`",
        )


def read_text(path: Path, remedy: str) -> str:
    """A small file of plain text."""
    with explained("the file cannot be read", where=str(path), remedy=remedy):
        return path.read_text(encoding="ascii", errors="replace")
