"""Folders and zip archives: the files in them, by name."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from flfl.errors import InputError
from flfl.io.files import READABLE, read_bytes, suffix_of, unpacked

_LARGEST = 4 << 30
"""Bytes that an archive may unpack to."""


_ABOUT = re.compile(r"(read_?me|liesmich|licen[sc]e|lizenz|lisez_?moi|leame)\b", re.IGNORECASE)
"""Names of files that tell of others."""


def is_several(path: Path) -> bool:
    """Whether a path holds several files."""
    return path.is_dir() or path.suffix.lower() == ".zip"


def parts(path: Path) -> Iterator[tuple[Path, bytes]]:
    """The name and the content of every readable file in a folder or an archive, in order."""
    found = list(_folder(path) if path.is_dir() else _archive(path))
    if not found:
        problem, remedy = "there is no file of readings in it", f"It takes {', '.join(READABLE)}"
        raise InputError(problem, where=str(path), remedy=remedy)
    yield from found


def _wanted(name: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in name.parts)
    return not hidden and suffix_of(name) in READABLE and not _ABOUT.match(name.name)


def _folder(path: Path) -> Iterator[tuple[Path, bytes]]:
    here = [file for file in path.iterdir() if file.is_file() and _wanted(Path(file.name))]
    # Archives have folders for years and months, and nothing beside them.
    deep = (file for file in path.rglob("*") if file.is_file() and _wanted(file.relative_to(path)))
    for file in sorted(here or deep):
        yield file, read_bytes(file)


def _archive(path: Path) -> Iterator[tuple[Path, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path))) as archive:
            members = [one for one in archive.infolist() if _wanted(Path(one.filename))]
            if sum(one.file_size for one in members) > _LARGEST:
                raise InputError("it would unpack to more than 4 GB", where=str(path))
            for one in sorted(members, key=lambda member: member.filename):
                yield path / one.filename, unpacked(path / one.filename, archive.read(one))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        problem = f"this is not a readable zip archive ({str(error)[:60]})"
        raise InputError(problem, where=str(path), remedy="Get the file again") from None
