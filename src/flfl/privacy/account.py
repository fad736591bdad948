"""A site's own account of what it has released about which slots. Exposure adds up over runs.

The account is the owner's: it is written next to the owner's data, readable by the owner only, and
never sent. A release is known by its fingerprint, which covers all that decides the numbers (the
series that spoke, the projection, the windows, the cohort): the same numbers sent again tell
nothing new and are not counted twice. Anything else over the same slots is.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from flfl.data.whole import write_files
from flfl.errors import InputError, explained

Array = NDArray[np.float64]
Index = NDArray[np.int64]

FORMAT = 1


@dataclass(frozen=True)
class Release:
    """One upload of readings.

    Attributes
    ----------
    run : name of the run
    stamps : slots, as the time stamps of the table (whole numbers)
    rates : numbers released for each reading at these slots
    fingerprint : of all that decides the numbers
    exposure : worst exposure of a sensor that was computed before the upload
    multiplier : noise over sensitivity, None where no noise was added
    """

    run: str
    stamps: tuple[int, ...]
    rates: tuple[float, ...]
    fingerprint: str
    exposure: float
    multiplier: float | None = None


@dataclass(frozen=True)
class Account:
    """Every release of one site so far.

    Examples
    --------
    >>> account = Account().with_release(Release("june", (1, 2), (0.3, 0.3), "a", 0.4))
    >>> account.released(np.array([2, 3]), "b").tolist()  # something else over slot 2
    [0.3, 0.0]
    >>> account.released(np.array([2, 3]), "a").tolist()  # the same numbers once more
    [0.0, 0.0]
    """

    releases: tuple[Release, ...] = ()

    def released(self, stamps: Index, fingerprint: str) -> Array:
        """Numbers for each reading that other releases have sent at these slots (N,)."""
        total = np.zeros(len(stamps))
        for release in self._others(fingerprint):
            at = dict(zip(release.stamps, release.rates, strict=True))
            total += np.array([at.get(stamp, 0.0) for stamp in stamps.tolist()])
        return total

    def multipliers(self, stamps: Index, fingerprint: str) -> list[float]:
        """Noise multipliers of other noisy releases that touch these slots."""
        here = set(stamps.tolist())
        return [
            release.multiplier
            for release in self._others(fingerprint)
            if release.multiplier is not None and not here.isdisjoint(release.stamps)
        ]

    def plain(self, stamps: Index) -> bool:
        """Whether any release without noise touches these slots."""
        here = set(stamps.tolist())
        return any(
            release.multiplier is None and not here.isdisjoint(release.stamps)
            for release in self.releases
        )

    def with_release(self, release: Release) -> Account:
        """The account with one more release; one that is already in it is not added."""
        if any(old.fingerprint == release.fingerprint for old in self.releases):
            return self
        return replace(self, releases=(*self.releases, release))

    def _others(self, fingerprint: str) -> Iterable[Release]:
        return (r for r in self.releases if r.fingerprint != fingerprint)


def fingerprint(*parts: object) -> str:
    """A short name for exactly these numbers and words.

    Examples
    --------
    >>> fingerprint(np.ones(2), "a") == fingerprint(np.ones(2), "a") != fingerprint(np.ones(3), "a")
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        array = isinstance(part, np.ndarray)
        data = np.ascontiguousarray(part).tobytes() if array else repr(part).encode()
        about = (part.dtype.str, part.shape) if isinstance(part, np.ndarray) else "word"
        digest.update(f"{about!r} {len(data)} ".encode() + data)
    return digest.hexdigest()


def account_path(folder: str | Path, site: str) -> Path:
    """Where a site's account lies: a file name that any site name gives, and no two share.

    Examples
    --------
    >>> account_path("accounts", "north/1").name.startswith("north_1-")
    True
    """
    plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in site)[:40]
    mark = hashlib.sha256(site.encode()).hexdigest()[:8]
    return Path(folder) / f"{plain}-{mark}.json"


def own_secret(path: Path) -> bytes:
    """The site's own secret, from which its noise comes; made once, readable by its owner only."""

    def make(file: BinaryIO) -> None:
        file.write(secrets.token_bytes(32))

    remedy = "Give a folder that can be written"
    with explained("cannot keep the site's secret", where=str(path), remedy=remedy):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            write_files({path: make}, private=True)
        secret = path.read_bytes()
    if len(secret) != 32:
        raise InputError(
            "this is not a site's secret", where=str(path), remedy="Restore the file, or remove it"
        )
    return secret


def save_account(path: str | Path, account: Account) -> None:
    """Write an account, readable by its owner only; all of it or nothing."""
    document = {"format": FORMAT, "releases": [asdict(r) for r in account.releases]}
    text = json.dumps(document, indent=1).encode()

    def write(file: BinaryIO) -> None:
        file.write(text)

    write_files({Path(path): write}, private=True)


def load_account(path: str | Path) -> Account:
    """Read an account; a file that is not there yet is an empty one.

    Raises
    ------
    InputError
        When the file is not an account: what was released must not be forgotten silently.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise InputError(f"an account of format {document['format']}", where=str(path))
        return Account(tuple(_release(row) for row in document["releases"]))
    except FileNotFoundError:
        return Account()
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "this is not an account of releases",
            where=str(path),
            remedy="Restore the file: without it nobody knows what was already released",
        ) from None


def _release(row: dict[str, object]) -> Release:
    release = Release(**row)  # type: ignore[arg-type]
    if len(release.stamps) != len(release.rates):
        raise ValueError("stamps and rates do not match")
    return replace(release, stamps=tuple(release.stamps), rates=tuple(release.rates))
