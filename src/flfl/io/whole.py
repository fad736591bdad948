"""Files that are either complete or not there. Nothing here knows what is in them."""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

Writer = Callable[[BinaryIO], None]


def real_path(path: Path) -> Path:
    """The file that a name stands for, links followed."""
    return Path(os.path.realpath(path))


def write_files(
    writers: Mapping[Path, Writer] | Mapping[str | Path, Writer], *, private: bool = False
) -> None:
    """Write files that appear under their names only when every one of them is complete.

    The bytes of each go to a temporary file beside it and are forced to the disk; then all take
    their names. On any failure before that the temporary files are removed and older files stay
    as they were. A name that ends in ``.gz`` is compressed, without a time stamp, so equal content
    gives equal bytes. ``private`` files are readable by their owner only, at every moment.
    """
    staged: list[tuple[Path, Path]] = []
    try:
        for path, write in writers.items():
            target = real_path(Path(path))
            handle, name = tempfile.mkstemp(
                prefix=f".{target.name}.", suffix=".tmp", dir=target.parent
            )
            staged.append((Path(name), target))
            _write(handle, target, write)
        for temporary, target in staged:
            os.chmod(temporary, 0o600 if private else _mode_for(target))
        for temporary, target in staged:
            os.replace(temporary, target)
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
    for directory in {target.parent for _, target in staged}:
        _sync_directory(directory)


def _write(handle: int, target: Path, write: Writer) -> None:
    with os.fdopen(handle, "wb") as file:
        if target.suffix.lower() == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                write(cast(BinaryIO, packed))
        else:
            write(file)
        file.flush()
        os.fsync(file.fileno())


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
