"""Inside a region the paper's method shows every neighbour's recovered series."""

import numpy as np
import pytest

from flfl.audit.attacks import region_peer as attack
from flfl.engines import inprocess
from flfl.federation.coordinator import Coordinator
from flfl.federation.ledger import Ledger
from flfl.federation.paper import PROTOCOL, PaperPlan, PaperSite, coordinate
from flfl.federation.site import Site
from flfl.model.graph import region_laplacian


@pytest.fixture(scope="module")
def finished():
    """One region of five sensors after a run: (P, Q, standardised readings)."""
    rng = np.random.default_rng(0)
    N, C = 200, 5
    t = np.arange(N)
    waves = np.stack([np.sin(t / 7), np.cos(t / 11), np.sin(t / 3)])
    Z = rng.standard_normal((C, 3)) @ waves + 0.1 * rng.standard_normal((C, N))
    Z = (Z - Z.mean(axis=1, keepdims=True)) / Z.std(axis=1, keepdims=True)
    known = rng.random(Z.shape) < 0.7
    plan = PaperPlan(rank=4, rounds=150)
    L = region_laplacian(rng.random((C, 2)), "metric", 3, size=C)
    ids = [f"s{i}" for i in range(C)]
    program = PaperSite(ids, range(C), Z, known, [0] * C, {0: L}, plan, 0)
    ledger = Ledger()
    run = coordinate(plan, N, 0, ledger)
    coordinator = Coordinator(run, PROTOCOL, ["home"], {"slots": N, "rank": 4})
    inprocess.run(coordinator, [Site("home", program, PROTOCOL)], ledger)
    return program._regions[0].P, program._Q, np.where(known, Z, np.nan), program.recover()


def test_the_peer_reads_exactly_what_the_neighbour_recovers(finished):
    P, Q, _, recovered = finished
    np.testing.assert_allclose(attack.read_neighbours(P, Q), recovered)


def test_it_is_close_to_the_readings_and_beats_guessing(finished):
    P, Q, truth, _ = finished
    found = attack.score(P, Q, truth, peer=0)
    assert np.median(found["read"]) < 0.3
    np.testing.assert_allclose(found["mean"], 1.0)
    assert (found["read"] < found["own_series"]).all()


def test_without_the_latent_vectors_q_alone_says_little(finished):
    P, Q, truth, _ = finished
    strangers = np.random.default_rng(1).standard_normal(P.shape) * np.abs(P).mean()
    found = attack.score(strangers, Q, truth, peer=0)
    assert np.median(found["read"]) > 0.8
