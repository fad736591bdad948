"""Files out, all or nothing: an output file is either complete or not there."""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from flfl.data.files import PARQUET_SUFFIXES, TEXT_SUFFIXES, suffix_of
from flfl.errors import InputError

OUTPUT_SUFFIXES = TEXT_SUFFIXES + PARQUET_SUFFIXES


def check_writable(path: str | Path, source: str | Path | None = None) -> None:
    """Refuse an output path that will not work, before any work is done.

    Parameters
    ----------
    path : str or Path
        The file to write.
    source : str or Path, optional
        The file that was read: it is never overwritten.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if path.is_dir():
        raise InputError("this is a directory", where=str(path), remedy="Give a file name in it")
    if suffix not in OUTPUT_SUFFIXES:
        raise InputError(
            f"the suffix {suffix!r} is not one that can be written",
            where=str(path),
            remedy=f"Give a name that ends in {', '.join(OUTPUT_SUFFIXES)}",
        )
    if path.exists() and not path.is_file():
        raise InputError("this is not a plain file", where=str(path), remedy="Give a file name")
    _check_directory(path)
    if source is not None and _same_file(path, Path(source)):
        raise InputError(
            "the output is the file that was read",
            where=str(path),
            remedy="Give another name, so that the readings stay as they are",
        )


def _check_directory(path: Path) -> None:
    directory = _real(path).parent
    if not directory.is_dir():
        raise InputError(
            f"the directory {str(directory)!r} does not exist",
            where=str(path),
            remedy="Make the directory first",
        )
    try:
        # Asking the file system by trying is the only answer that holds on every one of them.
        handle, name = tempfile.mkstemp(prefix=".flfl-", suffix=".tmp", dir=directory)
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise InputError(
            f"the directory {str(directory)!r} cannot be written to ({error.strerror})",
            where=str(path),
            remedy="Choose another directory, or change its permissions",
        ) from None


def _same_file(path: Path, source: Path) -> bool:
    if path.exists() and source.exists():
        return path.samefile(source)
    return _real(path) == _real(source)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


@contextmanager
def atomic_output(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when it is complete.

    The bytes go to a temporary file beside it, are forced to the disk, and then take the name in
    one step. On any failure the temporary file is removed and an older file stays as it was. A
    name that ends in ``.gz`` is compressed, without a time stamp, so equal content gives equal
    bytes.
    """
    target = _real(Path(path))
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            if target.suffix.lower() == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode_for(target))
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_directory(target.parent)


def _mode_for(target: Path) -> int:
    """The mode of the file that is replaced, or what a plain ``open`` would have given."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_directory(directory: Path) -> None:
    # Makes the new name survive a power cut; not every system allows it.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
