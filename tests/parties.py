"""Coordinator and sites of the default method, for tests."""

import hashlib

import numpy as np

from flfl.model.basis import map_box, to_plane
from flfl.protocol.added_error import AddedError
from flfl.protocol.client import Client
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.owner import Owner, Table
from flfl.protocol.plan import Plan
from flfl.protocol.schema import PROTOCOL, network_to_arrays
from flfl.protocol.server import Coordination
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.transport import local


def parties(table, sensors, plan=None, n_sites=4, secure=False):
    """Coordinator, sites and traffic of a run, the sensors dealt out to the sites in turn.

    The same sites have the same secrets, so two runs are equal to the last bit.
    """
    plane = to_plane(sensors.coordinates, sensors.kind)
    plan = plan or Plan(box=map_box(plane))
    Y, known, instants = table.values.to_numpy().T, table.known.T, np.arange(len(table.values))
    names = [f"site{n:03d}" for n in range(n_sites)]
    sums, hiding = local.secure(names) if secure else (None, {})
    sites = []
    for n, name in enumerate(names):
        home = np.arange(n, len(Y), n_sites)
        own = Table(
            name, [sensors.ids[i] for i in home], Y[home], known[home], plane[home],
            table.positions, instants, 1,
        )  # fmt: skip
        copier = Copier(hashlib.sha256(name.encode()).digest(), CopyStore())
        client = Client(Owner(own, copier, AddedError()), plan, hiding.get(name))
        sites.append(Site(name, client, PROTOCOL, hiding.get(name)))
    traffic = Traffic()
    run = Coordination(plan, table.positions, traffic)
    coordinator = Coordinator(run.program(), PROTOCOL, names, {}, security=sums)
    return coordinator, sites, traffic, run


def assert_same_network(one, other):
    """All that is public in two networks is equal to the last bit."""
    mine, theirs = network_to_arrays(one), network_to_arrays(other)
    for name, array in mine.items():
        np.testing.assert_array_equal(theirs[name], array)
