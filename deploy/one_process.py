"""A network's run in one process that holds all readings, to compare with: for tests and demos."""

import time
from pathlib import Path

from flfl.config import CoordinatorSettings, SiteSettings, read_settings
from flfl.protocol.client import Client
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.finish import finish_run
from flfl.protocol.network import together
from flfl.protocol.owner import Owner
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.server import Coordination
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.service import home, part
from flfl.service.plan import agreement_of, grid_at
from flfl.service.tables import read_source, write_tables
from flfl.transport import local


def in_one_process(coordinator, sites, folder, now=None):
    """Carry a network's run here, and write each owner's files into ``folder``.

    The sites' own secrets give the same copies, so that the results equal those of separate
    processes to the last bit. Their stores of copies are not touched.

    Parameters
    ----------
    coordinator, sites : paths of the parties' settings
    now : seconds since 1970, by which the run's slots are closed

    Returns
    -------
    all that became public, and the traffic
    """
    settings = read_settings(CoordinatorSettings, coordinator)
    owners = sorted((read_settings(SiteSettings, path) for path in sites), key=lambda s: s.name)
    names = [owner.name for owner in owners]
    grid = grid_at(settings, time.time() if now is None else now)
    agreement = agreement_of(settings, "", grid)
    sums, hiding = local.secure(names) if settings.run.secure else (None, {})
    taken = {owner.name: read_source(owner.readings, grid) for owner in owners}
    clients, traffic, once = {}, Traffic(), together()
    for owner in owners:
        secret = home.secret(home.copies_folder(owner) / home.SECRET)
        table = part.table_of(taken[owner.name], owner.name, agreement)
        made = Owner(table, Copier(secret, CopyStore()), home.floor_of(owner))
        clients[owner.name] = Client(made, agreement.plan, hiding.get(owner.name), once)
    run = Coordination(agreement.plan, grid.positions(), traffic, once=once)
    parties = [Site(name, own, PROTOCOL, hiding.get(name)) for name, own in clients.items()]
    local.run(Coordinator(run.program(), PROTOCOL, names, {}, security=sums), parties, traffic)
    Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    for owner in owners:
        only = {"file": Path(folder) / owner.out.file.name}
        out = owner.out.model_copy(update={"flags": None, "page": None, "scores": None, **only})
        result = finish_run(clients[owner.name], part.effort_of(owner, grid))
        seen = run.network.known.any(axis=0)
        write_tables(out, taken[owner.name], grid, result, seen, agreement.run)
    return run.network, traffic
