"""Files as bytes, gzip undone or done; nothing large is imported, for a running site uses it."""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from flfl.errors import InputError, explained

TEXT_SUFFIXES = (".csv", ".txt", ".tsv", ".dat", ".csv.gz", ".txt.gz", ".tsv.gz", ".dat.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
NETCDF_SUFFIXES = (".nc",)
SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
WRITTEN_SHEETS = (".xlsx", ".ods")
OUTPUT_SUFFIXES = TEXT_SUFFIXES + PARQUET_SUFFIXES + WRITTEN_SHEETS
READABLE = TEXT_SUFFIXES + SHEET_SUFFIXES + PARQUET_SUFFIXES + NETCDF_SUFFIXES
"""What the name of a file of readings may end in; folders and .zip hold such files."""
_GZIP_MAGIC = b"\x1f\x8b"
_ANYONE_WRITES = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH

Writer = Callable[[BinaryIO], None]


def suffix_of(path: str | Path) -> str:
    """The suffix that tells the format, with ``.gz`` kept together with the one before it.

    Examples
    --------
    >>> suffix_of(Path("a.b.CSV.gz"))
    '.csv.gz'
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def read_bytes(path: Path) -> bytes:
    """What a file holds, unpacked where it is gzip: the content decides, whatever the name."""
    where, data = str(path), b""
    problem = remedy = ""
    if path.is_dir():
        problem, remedy = "this is a directory", "Give one file in it"
    elif not path.exists():
        problem, remedy = "there is no such file", "Check the name and the directory"
    else:
        remedy = "Check that you may read it"
        with explained("the file cannot be opened", where=where, remedy=remedy):
            data = path.read_bytes()
    if problem:
        raise InputError(problem, where=where, remedy=remedy)
    return unpacked(path, data)


def unpacked(path: Path, data: bytes) -> bytes:
    """The content of a file, without gzip where that is around it."""
    if data.startswith(_GZIP_MAGIC):
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            problem, remedy = "the gzip data is damaged or cut short", "Get the file again"
    elif path.suffix.lower() == ".gz" and data:
        problem = "the name ends in .gz but the content is not gzip"
        remedy = "Rename the file without .gz, or compress it with gzip"
    elif not data:
        problem, remedy = "the file is empty", "Give a file with readings"
    else:
        return data
    raise InputError(problem, where=str(path), remedy=remedy)


def check_writable(
    *paths: str | Path, inputs: Iterable[str | Path] = (), suffixes: Sequence[str] = OUTPUT_SUFFIXES
) -> None:
    """Refuse output paths that cannot be written, are the same, or are among the ``inputs``."""
    read = {os.path.realpath(path) for path in inputs}
    taken: set[str] = set()
    for path in map(Path, paths):
        target = os.path.realpath(path)
        directory, suffix, there = os.path.dirname(target), suffix_of(path), path.exists()
        # A new file would take its name whatever the old one's mode; root may even write to it.
        writable = there and os.access(path, os.W_OK) and path.stat().st_mode & _ANYONE_WRITES
        problem = remedy = ""
        if path.is_dir():
            problem, remedy = "this is a directory", "Give a file name in it"
        elif suffix not in suffixes:
            problem = f"the suffix {suffix!r} is not one that can be written"
            remedy = f"Give a name that ends in {', '.join(suffixes)}"
        elif there and not path.is_file():
            problem, remedy = "this is not a plain file", "Give a file name"
        elif there and not writable:
            problem, remedy = "the file is read-only", "Give another name, or make it writable"
        elif not os.path.isdir(directory):
            problem, remedy = f"the directory {directory!r} does not exist", "Make it first"
        elif target in read or (there and any(map(path.samefile, filter(os.path.exists, read)))):
            problem, remedy = "the output is a file that was read", "Give another name"
        elif target in taken:
            problem, remedy = "two outputs have the same name", "Give each its own name"
        if problem:
            raise InputError(problem, where=str(path), remedy=remedy)
        taken.add(target)
        with explained(
            f"the directory {directory!r} cannot be written to",
            where=str(path),
            remedy="Choose another directory, or change its permissions",
        ):
            # Asking the file system by trying is the only answer that holds on every one of them.
            handle, name = tempfile.mkstemp(prefix=".flfl-", suffix=".tmp", dir=directory)
            os.close(handle)
            os.unlink(name)


def write_files(
    writers: Mapping[Path, Writer] | Mapping[str | Path, Writer], *, private: bool = False
) -> None:
    """Write files that appear under their names only when every one of them is complete.

    Each goes to a temporary file beside it and is forced to the disk; then all take their names. On
    a failure before that, older files stay as they were. A name in ``.gz`` is compressed, without a
    time stamp: equal content, equal bytes. ``private``: never readable by others than the owner.
    """
    staged: list[tuple[Path, Path]] = []
    os.umask(mask := os.umask(0))
    try:
        for path, write in writers.items():
            target = Path(os.path.realpath(path))
            handle, name = tempfile.mkstemp(".tmp", f".{target.name}.", target.parent)
            staged.append((Path(name), target))
            with os.fdopen(handle, "wb") as file:
                if target.suffix.lower() == ".gz":
                    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                        write(cast(BinaryIO, packed))
                else:
                    write(file)
                file.flush()
                os.fsync(file.fileno())
        for temporary, target in staged:
            # The mode of the file that is replaced, or what a plain `open` would have given.
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~mask
            os.chmod(temporary, 0o600 if private else mode)
        for temporary, target in staged:
            os.replace(temporary, target)
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
    for directory in {target.parent for _, target in staged}:
        # Makes the new name survive a power cut; not every system allows it.
        with suppress(OSError):
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
