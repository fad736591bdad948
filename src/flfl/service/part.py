"""A site's part in a run, from its first answer to its result: all of it stays with the owner.

Loaded when a run begins: a site that waits does without.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from flfl.config import SiteSettings
from flfl.constants import WINDOW_SLOTS
from flfl.ensemble.recovery import Recovered
from flfl.model.basis import to_plane
from flfl.protocol.client import Client
from flfl.protocol.finish import Effort, finish_run, finish_since, own_part
from flfl.protocol.journal import DurableSite
from flfl.protocol.network import Network
from flfl.protocol.owner import Owner, Table
from flfl.protocol.plan import Fit
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.session import Site
from flfl.protocol.traffic import Traffic
from flfl.secagg import Roster, SecureClient
from flfl.service.agreement import Agreement, AgreementError, Published
from flfl.service.files import save, unseal
from flfl.service.grid import TimeGrid
from flfl.service.home import SECRET, Home, Snapshot, floor_of, secret
from flfl.service.night import Night
from flfl.service.results import Result
from flfl.service.site_folder import HISTORY, JOURNAL, RESULT, SiteFolder


def enter(
    home: Home, roster: Roster | None, kept: SiteFolder, agreement: Agreement
) -> tuple[Client, DurableSite]:
    """Be in a run whose folder is there; what was answered before is replayed."""
    settings, folder, security = home.settings, kept.run(agreement.run), None
    if agreement.secure:
        if home.identity is None or roster is None:
            raise AgreementError("the run has secure sums, and this site has no identity")
        own = secret(folder / SECRET)
        security = SecureClient(settings.name, home.identity, roster, own)
    table = table_of(kept.readings(agreement.run), settings.name, agreement)
    earlier = None
    if agreement.history:
        earlier = Published.from_bytes(unseal(folder / HISTORY)).network
    # Clean readings with the copier on one side, messages on the other.
    late = settings.terms.late == "release"
    owner = Owner(table, home.copier, floor_of(settings), late)
    client = Client(owner, agreement.plan, security, earlier=earlier)
    return client, DurableSite(Site(settings.name, client, PROTOCOL, security), folder / JOURNAL)


def result_of(home: Home, kept: SiteFolder, agreement: Agreement, client: Client,
              traffic: Traffic) -> Result:  # fmt: skip
    """The result of a run that this site took part in, kept until its tables stand."""
    settings, published = home.settings, Published(agreement, client.network)
    taken, last = kept.readings(agreement.run), last_result(kept)
    if last is not None and last.run == agreement.run:
        return last
    first = _first(settings, published, taken, last)
    made = finish_run(client, effort_of(settings, agreement.grid), first)
    night = Night.of(settings, agreement, client.network, client, traffic)
    return _keep(kept, published, taken, made, first, last, night)


def result_without(home: Home, kept: SiteFolder, published: Published, taken: Snapshot) -> Result:
    """A result at home with what a run published that this site had no part in."""
    settings, agreement, network = home.settings, published.agreement, published.network
    table, last = table_of(taken, settings.name, agreement), last_result(kept)
    # What it released in earlier runs is still in the sums, and is taken off them.
    own = own_part(table, network, home.copier.store)
    first = _first(settings, published, taken, last)
    made = finish_since(first, table, effort_of(settings, agreement.grid), network, own)
    night = Night.of(settings, agreement, network)
    return _keep(kept, published, taken, made, first, last, night)


def last_result(kept: SiteFolder) -> Result | None:
    """The result of the run before."""
    found = kept.result()
    return None if found is None else Result.from_values(found)


def _first(
    settings: SiteSettings, published: Published, taken: Snapshot, last: Result | None
) -> int:
    """The slot from which on this site estimates anew: all of them when all was fitted anew, or
    when there is no earlier result of all sensors."""
    agreement, network = published.agreement, published.network
    if last is None or not last.covers(taken, agreement.grid):
        return network.first
    since = agreement.grid.since(settings.out.history, WINDOW_SLOTS)
    since = network.first if agreement.fit == Fit.ANEW else max(since, network.first)
    return min(since, last.grid.slots)


def _keep(
    kept: SiteFolder, published: Published, taken: Snapshot, made: Recovered, first: int,
    last: Result | None, night: Night,
) -> Result:  # fmt: skip
    agreement, seen = published.agreement, _seen(published.network)
    result = Result(agreement.run, agreement.grid, taken, seen, made)
    if first > 0:
        last = last or replace(result, recovered=_nothing(made, first))
        result = last.before(first, agreement.run, agreement.grid, taken, seen, made)
    result = replace(result, night=night)
    save(kept.path / RESULT, result.to_values())
    return result


def _seen(network: Network) -> np.ndarray:
    """At which of all slots the network has readings (N,)."""
    seen = np.pad(network.known.any(axis=0), (network.first, 0))
    seen[network.late.slots] = True
    return seen


def _nothing(made: Recovered, slots: int) -> Recovered:
    """Of slots that nothing is known of any more."""
    shape = len(made.estimate), slots
    return Recovered(*(np.full(shape, np.nan) for _ in vars(made)))


def effort_of(settings: SiteSettings, grid: TimeGrid) -> Effort:
    """How the owner finishes; what is drawn follows from the site's secret."""
    key, out = secret(settings.state / SECRET), settings.out
    seed = int.from_bytes(hashlib.sha256(b"flfl draws" + key).digest()[:4])
    return Effort(out.effort == "full", out.coverage, grid.period(), seed)


def table_of(taken: Snapshot, name: str, agreement: Agreement) -> Table:
    """A site's sensors that have readings, on the network's times and map; an
    :class:`AgreementError` if the map needs places that this site does not give."""
    grid, kind, alive, places = agreement.grid, agreement.geography, taken.alive, None
    if kind:
        if taken.coordinates is None or taken.geography != kind:
            needs = f"the run needs {kind} places of all sensors"
            raise AgreementError(f"{needs}; give readings.sensors a file that has them")
        places = to_plane(taken.coordinates, kind, agreement.centre)[alive]
    values = taken.values[alive]
    ids = [sensor for sensor, here in zip(taken.ids, alive, strict=True) if here]
    return Table(
        name, ids, values, ~np.isnan(values), places, grid.positions(), grid.stamps(),
        grid.step_seconds,
    )  # fmt: skip
