"""Files of a party's state: private, whole or not there, and used by one process at a time."""

from __future__ import annotations

import hashlib
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from flfl.codec import CodecError, pack, unpack
from flfl.errors import InputError, explained
from flfl.io.files import write_files

_LOG = logging.getLogger("flfl.state")
_HASH = 32

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


def is_locked(folder: Path) -> bool:
    """Whether another process is at work with a folder."""
    try:
        with (folder / "lock").open("rb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def save_bytes(path: Path, data: bytes) -> None:
    """Write a private file; all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_files({path: lambda file: file.write(data) and None}, private=True)


def seal(path: Path, data: bytes) -> None:
    """Write bytes of the state, with their hash; all of them or nothing."""
    save_bytes(path, hashlib.sha256(data).digest() + data)


def unseal(path: Path) -> bytes:
    """The bytes back; a :class:`CodecError` where one of them has changed."""
    kept = path.read_bytes()
    if hashlib.sha256(data := kept[_HASH:]).digest() != kept[:_HASH]:
        raise CodecError("it is not as it was written")
    return data


def save(path: Path, value: Any) -> None:
    """Write a value of :mod:`flfl.codec` into a private file; all of it or nothing."""
    seal(path, pack(value))


def load(path: Path) -> Any:
    """The value back, None where there is no such file."""
    try:
        return unpack(unseal(path))
    except FileNotFoundError:
        return None
    except (OSError, CodecError) as error:
        raise InputError(
            f"the file is damaged ({error})",
            where=str(path),
            remedy="Restore it, or move the state folder away to begin anew",
        ) from None


def set_aside(path: Path, why: object) -> None:
    """Rename what is damaged, so that nothing stumbles over it again and nothing is lost."""
    if path.exists():
        kept = path.with_name(path.name + ".damaged")
        with suppress(OSError):
            path.replace(kept)
        _LOG.error("%s is damaged (%s): set aside as %s", path, why, kept.name)


def load_or_set_aside(path: Path, *names: str) -> Any:
    """A value that can be made again: None where there is none, or where it is damaged. A mapping
    must have these names."""
    try:
        value = load(path)
        if value is None or all(name in value for name in names):
            return value
        set_aside(path, "something is missing in it")
    except (InputError, TypeError) as error:
        set_aside(path, error)
    return None


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
