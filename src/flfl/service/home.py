"""What stays with an owner: its settings, keys and secret, its copies and its clean readings."""

from __future__ import annotations

import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from flfl.config import SiteSettings
from flfl.errors import FLFLError, InputError, explained
from flfl.protocol.added_error import AddedError
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyError, CopyStore
from flfl.secagg import Identity, Roster
from flfl.service import files
from flfl.service.identity import load_identity, load_roster

SECRET, STORE, MARKER = "secret", "copies.sqlite", "copies.id"


@dataclass(frozen=True)
class Snapshot:
    """Readings as they were when a run began: an interrupted run goes on with the same. Values are
    (m, N), NaN = missing; coordinates (m, 2); geography is ``latlon``, ``metric`` or empty."""

    ids: list[str]
    values: NDArray[np.float64]
    coordinates: NDArray[np.float64] | None
    geography: str

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which sensors have a reading at all (m,)."""
        return np.asarray(~np.isnan(self.values).all(axis=1))


@dataclass(frozen=True)
class Home:
    """An owner's settings, keys and copies, held by one process at a time."""

    settings: SiteSettings
    roster: Roster | None
    identity: Identity | None
    copier: Copier
    _lock: IO[bytes]

    @classmethod
    def open(cls, settings: SiteSettings, where: str, patience: float = 0.0) -> Home:
        """Open it, or wait ``patience`` seconds for another process to let go of it."""
        roster, identity = identified(settings, where)
        lock = files.lock(settings.state, patience)
        try:
            copier = open_copier(copies_folder(settings))
        except FLFLError:
            lock.close()
            raise
        return cls(settings, roster, identity, copier, lock)

    def close(self) -> None:
        """Let other processes have it."""
        self.copier.store.close()
        self._lock.close()


def identified(settings: SiteSettings, where: str) -> tuple[Roster | None, Identity | None]:
    """A site's roster and identity, which fit each other."""
    roster = None if settings.roster is None else load_roster(settings.roster)
    identity = None if settings.identity is None else load_identity(settings.identity)
    if roster is None or identity is None:
        if settings.terms.secure:
            raise InputError(
                "secure sums need identity and roster",
                where=where,
                remedy="Make them with `flfl keys site` and `flfl keys roster`",
            )
    elif roster.keys.get(settings.name) != identity.public:
        raise InputError(
            f"the roster does not list {settings.name!r} with this identity",
            where=where,
            remedy="Give the name, identity and roster.json that the operators gave this site",
        )
    return roster, identity


def floor_of(settings: SiteSettings) -> AddedError:
    """The added error that the owner insists on."""
    given = settings.terms.added_error
    return AddedError.parse(given) if isinstance(given, str) else AddedError(given)


def secret(path: Path) -> bytes:
    """32 random bytes, made once, readable by their owner only."""
    remedy = "Give a state folder that can be written"
    with explained("the site's secret cannot be kept", where=str(path), remedy=remedy):
        if not path.exists():
            files.save_bytes(path, secrets.token_bytes(32))
        kept = path.read_bytes()
    if len(kept) != 32:
        raise InputError("this is not a site's secret", where=str(path), remedy="Restore the file")
    return kept


def copies_folder(settings: SiteSettings) -> Path:
    """Where a site's secret and copies are: ``copies`` if given, else ``state``."""
    folder = settings.copies or settings.state
    if folder.resolve() != settings.state.resolve() and (settings.state / MARKER).exists():
        raise InputError(
            "this site's copies are in its state folder, and copies names another one",
            where=str(settings.state),
            remedy=f"Move {SECRET}, {STORE} and {MARKER} there if it is empty, or remove copies",
        )
    return folder


def open_copier(folder: Path) -> Copier:
    """A site's copier: its secret and its copies, both made at the first start and never again."""
    store, marker = folder / STORE, folder / MARKER
    if marker.exists() and not (folder / SECRET).exists():
        raise InputError(
            "the secret that belongs to this site's copies is missing",
            where=str(folder / SECRET),
            remedy="Restore it from a backup; the state folder is as precious as the readings",
        )
    key = secret(folder / SECRET)
    try:
        made = CopyStore.open(store, marker) if marker.exists() else CopyStore.create(store, marker)
    except CopyError as error:
        if isinstance(error.__context__, sqlite3.OperationalError):
            # A full disk, say: nothing that settings could mend, and worth another start.
            raise FLFLError(f"{folder}: {error}") from error
        raise InputError(str(error), where=str(folder)) from None
    return Copier(key, made)
