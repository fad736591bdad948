"""Files out, all or nothing: an output file is either complete or not there."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from flfl.errors import InputError, explained
from flfl.io.files import PARQUET_SUFFIXES, TEXT_SUFFIXES, suffix_of
from flfl.io.whole import Writer, real_path, write_files

__all__ = ["OUTPUT_SUFFIXES", "Writer", "check_writable", "write_files"]

OUTPUT_SUFFIXES = TEXT_SUFFIXES + PARQUET_SUFFIXES
_ANYONE_WRITES = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def check_writable(
    *paths: str | Path,
    inputs: Iterable[str | Path] = (),
    suffixes: Sequence[str] = OUTPUT_SUFFIXES,
) -> None:
    """Refuse output paths that will not work, before any work is done.

    Parameters
    ----------
    paths : str or Path
        The files to write, each a file of its own.
    inputs : iterable of str or Path
        The files that were read, none of which is ever overwritten.
    suffixes : sequence of str
        What a name may end in.
    """
    read = [Path(path) for path in inputs]
    for number, path in enumerate(map(Path, paths)):
        _check_target(path, suffixes)
        _check_directory(path)
        if any(_same_file(path, source) for source in read):
            raise InputError(
                "the output is a file that was read",
                where=str(path),
                remedy="Give another name, so that it stays as it is",
            )
        if any(_same_file(path, Path(other)) for other in paths[:number]):
            raise InputError(
                "two outputs have the same name", where=str(path), remedy="Give each its own name"
            )


def _check_target(path: Path, suffixes: Sequence[str]) -> None:
    suffix = suffix_of(path)
    if path.is_dir():
        raise InputError("this is a directory", where=str(path), remedy="Give a file name in it")
    if suffix not in suffixes:
        raise InputError(
            f"the suffix {suffix!r} is not one that can be written",
            where=str(path),
            remedy=f"Give a name that ends in {', '.join(suffixes)}",
        )
    if not path.exists():
        return
    if not path.is_file():
        raise InputError("this is not a plain file", where=str(path), remedy="Give a file name")
    # A new file would take its name whatever the old one's mode; root may even write to it.
    if not (os.access(path, os.W_OK) and path.stat().st_mode & _ANYONE_WRITES):
        raise InputError(
            "the file is read-only",
            where=str(path),
            remedy="Give another name, or make the file writable",
        )


def _check_directory(path: Path) -> None:
    directory = real_path(path).parent
    if not directory.is_dir():
        raise InputError(
            f"the directory {str(directory)!r} does not exist",
            where=str(path),
            remedy="Make the directory first",
        )
    with explained(
        f"the directory {str(directory)!r} cannot be written to",
        where=str(path),
        remedy="Choose another directory, or change its permissions",
    ):
        # Asking the file system by trying is the only answer that holds on every one of them.
        handle, name = tempfile.mkstemp(prefix=".flfl-", suffix=".tmp", dir=directory)
        os.close(handle)
        os.unlink(name)


def _same_file(path: Path, source: Path) -> bool:
    if path.exists() and source.exists():
        return path.samefile(source)
    return real_path(path) == real_path(source)
