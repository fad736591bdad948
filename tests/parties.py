"""Coordinator and sites of the default method, for tests."""

import numpy as np

from flfl.engines import inprocess
from flfl.federation.coordinator import Coordinator
from flfl.federation.factors import PROTOCOL, FactorPlan, FactorSite, coordinate
from flfl.federation.factors.keeping import Sensing
from flfl.federation.ledger import Ledger
from flfl.federation.messages import Question, decode_question, encode
from flfl.federation.site import Site
from flfl.model.graph import map_box, to_plane


def parties(table, sensors, plan=None, n_sites=4, site=FactorSite, secure=False):
    """Coordinator, sites and ledger of a run, the sensors dealt out to the sites in turn."""
    plane = to_plane(sensors.coordinates, sensors.kind)
    plan = plan or FactorPlan(box=map_box(plane), boost=False)
    Y, known = table.values.to_numpy().T, table.known.T
    names = [f"site{n}" for n in range(n_sites)]
    sums, hiding = inprocess.secure(names) if secure else (None, {})
    sites = []
    for n in range(n_sites):
        home = np.arange(n, len(Y), n_sites)
        sensing = Sensing(
            f"site{n}", [sensors.ids[i] for i in home], Y[home], known[home], plane[home],
            table.positions,
        )  # fmt: skip
        program = site(sensing, plan, 0)
        sites.append(Site(sensing.name, program, PROTOCOL, hiding.get(sensing.name)))
    ledger, sizes = Ledger(), {}
    run = coordinate(plan, Y.shape[1], ledger, sizes)
    coordinator = Coordinator(run.program(), PROTOCOL, names, sizes, security=sums)
    return coordinator, sites, ledger, run


def asked_until(coordinator, sites, kind, change):
    """Run a federation, but let one kind of question reach the sites changed."""
    by_name = {site.name: site for site in sites}
    outbox = list(coordinator.start())
    while outbox:
        name, data = outbox.pop(0)
        question = decode_question(data, PROTOCOL, {})
        if question.kind == kind:
            body = {k: v.copy() for k, v in question.body.items()}
            change(body)
            data = encode(
                Question(question.run, question.number, kind, question.to, body), PROTOCOL
            )
        outbox += coordinator.receive(by_name[name].receive(data))
