"""What stays with an owner: its secret, its copies, its clean readings and its result."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import numpy as np

from flfl.ensemble.estimate import Recovered
from flfl.errors import InputError, explained
from flfl.model.geometry import to_plane
from flfl.protocol import home
from flfl.protocol.client import Client, Published
from flfl.protocol.copier import AddedError, Copier
from flfl.protocol.copy_store import CopyError, CopyStore
from flfl.protocol.home import Effort
from flfl.protocol.owner import Table
from flfl.protocol.public import Network
from flfl.service.agreement import AgreementError
from flfl.service.config import OutSettings, SiteConfig
from flfl.service.grid import TimeGrid
from flfl.service.sources import Snapshot, save_text

SECRET, STORE, MARKER = "secret", "copies.sqlite", "copies.id"


def own_secret(path: Path) -> bytes:
    """32 random bytes, made once, readable by their owner only."""
    remedy = "Give a state folder that can be written"
    with explained("the site's secret cannot be kept", where=str(path), remedy=remedy):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            save_text(path, secrets.token_bytes(32))
        secret = path.read_bytes()
    if len(secret) != 32:
        raise InputError("this is not a site's secret", where=str(path), remedy="Restore the file")
    return secret


def copies_folder(config: SiteConfig) -> Path:
    """Where a site's secret and copies are: ``copies`` if given, else ``state``.

    Raises
    ------
    InputError
        When ``copies`` is given, and the site made copies in ``state`` before.
    """
    folder = config.copies or config.state
    if folder.resolve() != config.state.resolve() and (config.state / MARKER).exists():
        raise InputError(
            "this site's copies are in its state folder, and copies names another one",
            where=str(config.state),
            remedy=f"Move {SECRET}, {STORE} and {MARKER} there if it is empty, or remove copies",
        )
    return folder


def open_copier(state: Path) -> Copier:
    """A site's copier: its secret and its copies, both made at the first start and never again.

    Raises
    ------
    InputError
        When one of them is lost: other copies of the same readings must not be made.
    """
    secret, store, marker = (state / name for name in (SECRET, STORE, MARKER))
    if marker.exists() and not secret.exists():
        raise InputError(
            "the secret that belongs to this site's copies is missing",
            where=str(secret),
            remedy="Restore it from a backup; the state folder is as precious as the readings",
        )
    key = own_secret(secret)
    try:
        made = CopyStore.open(store, marker) if marker.exists() else CopyStore.create(store, marker)
    except CopyError as error:
        raise InputError(str(error), where=str(state)) from None
    return Copier(key, made)


def floor_of(config: SiteConfig) -> AddedError:
    """The added error that the owner insists on."""
    given = config.terms.added_error
    return AddedError.parse(given) if isinstance(given, str) else AddedError(given)


def table_of(
    taken: Snapshot, name: str, grid: TimeGrid, geography: str, centre: tuple[float, float]
) -> Table:
    """A site's sensors that have readings, on the network's times and map.

    Raises
    ------
    AgreementError
        When the network has a map, and this site does not say where its sensors are.
    """
    alive, places = taken.alive, None
    if geography:
        if taken.coordinates is None or taken.geography != geography:
            raise AgreementError(
                f"the run needs {geography} places of all sensors; give readings.sensors a file"
                " that has them"
            )
        places = to_plane(taken.coordinates, geography, centre)[alive]  # type: ignore[arg-type]
    values = taken.values[alive]
    ids = [sensor for sensor, here in zip(taken.ids, alive, strict=True) if here]
    return Table(
        name, ids, values, ~np.isnan(values), places, grid.positions(), grid.stamps(),
        grid.step_seconds,
    )  # fmt: skip


def effort_of(settings: OutSettings, grid: TimeGrid, secret: bytes) -> Effort:
    """How the owner finishes; what is drawn follows from the site's secret."""
    if settings.effort not in ("full", "quick") or not 0 < settings.coverage < 1:
        raise InputError(
            f"effort is {settings.effort!r}, coverage {settings.coverage:g}",
            where="[out]",
            remedy='Choose "full" or "quick", and a coverage between 0 and 1',
        )
    seed = int.from_bytes(hashlib.sha256(b"flfl draws" + secret).digest()[:4])
    return Effort(settings.effort == "full", settings.coverage, grid.period(), seed)


def finish(client: Client, effort: Effort) -> Recovered:
    """The result of a site whose run has ended."""
    state = client.state
    assert isinstance(state, Published)
    assert state.network is not None
    own = state.network.rows(state.name), client.outgoing, state.offsets
    trial = state.network.transform, state.network.season
    return home.finish(client.owner.table, effort, trial, state.network, own)


def join(table: Table, effort: Effort, network: Network, store: CopyStore) -> Recovered:
    """The result of a site that was not in a run, from what the run published.

    What it released in earlier runs is still in the sums, and is taken off them.
    """
    own = home.own_part(table, network, store)
    return home.finish(table, effort, (network.transform, network.season), network, own)
