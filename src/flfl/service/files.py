"""Files of a party's state: private, whole or not there, and used by one process at a time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO, Any

from flfl.codec import CodecError, pack, unpack
from flfl.errors import InputError, explained
from flfl.io.files import write_files

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without it
    fcntl = None  # type: ignore[assignment]


def lock(folder: Path, patience: float = 0.0) -> IO[bytes]:
    """Make a private folder and keep other processes out of it until the returned file is closed;
    another one may still have it for ``patience`` seconds."""
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


def save_bytes(path: Path, data: bytes) -> None:
    """Write a private file; all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_files({path: lambda file: file.write(data) and None}, private=True)


def save(path: Path, value: Any) -> None:
    """Write a value of :mod:`flfl.codec` into a private file; all of it or nothing."""
    save_bytes(path, pack(value))


def load(path: Path) -> Any:
    """The value back, None where there is no such file."""
    try:
        return unpack(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, CodecError) as error:
        raise InputError(
            f"the file is damaged ({error})",
            where=str(path),
            remedy="Restore it, or move the state folder away to begin anew",
        ) from None


def folder_name(run: str) -> str:
    """A run's name as a folder's: whatever was announced, it is one folder and no path.

    Examples
    --------
    >>> folder_name("../north-1")
    '___north-1'
    >>> folder_name("n\xf6rd")
    'n_rd'
    """
    plain = (c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in run)
    return "".join(plain)[:120] or "_"
