"""The paper's protocol: who sees what, whatever the grouping, and what happens when it diverges."""

import numpy as np
import pytest

from boundary import Boundary
from flfl.paper.federation import PROTOCOL, PaperPlan, PaperSite, coordinate
from flfl.paper.graph import region_laplacian
from flfl.paper.objective import Weights
from flfl.protocol.messages import Answer, ProtocolError, Question, encode
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.transport import local

pytestmark = pytest.mark.usefixtures("every_engine")

N, M, RANK = 40, 6, 2
REGIONS = np.array([0, 0, 0, 1, 1, 2])
SIZES = {"slots": N, "rank": RANK}


def readings(seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(N) / 6
    # All sensors follow one course, each with a touch of another.
    loadings = np.stack([np.ones(M), 0.3 * rng.standard_normal(M)])
    Z = np.stack([np.sin(t), np.cos(t)], axis=1) @ loadings
    return Z.T + 0.05 * rng.standard_normal((M, N)), rng.random((M, N)) < 0.7


def build(groups, plan, Z=None, known=None, seed=3):
    """Sites from groups of regions, e.g. [[0], [1, 2]]."""
    if Z is None:
        Z, known = readings()
    coordinates = np.random.default_rng(1).random((M, 2))
    sites = []
    for number, group in enumerate(groups):
        home = np.flatnonzero(np.isin(REGIONS, group))
        laplacians = {
            label: region_laplacian(
                coordinates[label == REGIONS], "metric", 2, size=int((label == REGIONS).sum())
            )
            for label in group
        }
        program = PaperSite(
            [f"s{i}" for i in home],
            home,
            Z[home],
            known[home],
            REGIONS[home],
            laplacians,
            plan,
            seed,
        )
        sites.append(Site(f"site{number}", program, PROTOCOL))
    traffic = Traffic()
    program = coordinate(plan, N, seed, traffic)
    coordinator = Coordinator(program, PROTOCOL, [site.name for site in sites], SIZES)
    return coordinator, sites, traffic


def run(groups, plan, tap=None, **data):
    coordinator, sites, traffic = build(groups, plan, **data)
    local.run(coordinator, sites, traffic, tap)
    out = np.empty((M, N))
    for group, site in zip(groups, sites, strict=True):
        out[np.isin(REGIONS, group)] = site.program.recover()
    return out, traffic


def plan(**changes):
    return PaperPlan(rank=RANK, rounds=20, check_every=5, **changes)


@pytest.mark.parametrize("schedule", ["prompt", "synchronous"])
def test_same_seed_same_bits_whatever_the_sites(schedule):
    one, _ = run([[0, 1, 2]], plan(schedule=schedule))
    for groups in ([[0], [1], [2]], [[2], [0, 1]], [[0, 2], [1]]):
        other, _ = run(groups, plan(schedule=schedule))
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("schedule", ["prompt", "synchronous"])
def test_it_learns(schedule):
    Z, known = readings()
    estimates, _ = run([[0], [1], [2]], PaperPlan(rank=RANK, rounds=300, schedule=schedule))
    hidden = ~known
    assert np.abs(estimates - Z)[hidden].mean() < 0.5 * np.abs(Z)[hidden].mean()


def test_another_seed_gives_another_start():
    first, _ = run([[0], [1], [2]], plan())
    coordinator, sites, traffic = build([[0], [1], [2]], plan(), seed=4)
    local.run(coordinator, sites, traffic)
    assert not np.array_equal(sites[2].program.recover(), first[REGIONS == 2])


def test_hidden_readings_do_not_reach_the_method():
    Z, known = readings()
    clean, _ = run([[0], [1], [2]], plan())
    for poison in (np.nan, 1e9):
        spoiled, _ = run([[0], [1], [2]], plan(), Z=np.where(known, Z, poison), known=known)
        np.testing.assert_array_equal(spoiled, clean)


@pytest.mark.parametrize("schedule", ["prompt", "synchronous"])
def test_a_step_that_is_too_long_is_cut_and_said(schedule):
    estimates, traffic = run(
        [[0], [1], [2]],
        PaperPlan(rank=RANK, rounds=60, check_every=5, learning_rate=500.0, schedule=schedule),
    )
    assert np.isfinite(estimates).all()
    assert any("diverged" in note for note in traffic.notes)


def test_early_stop_is_said():
    _, traffic = run([[0], [1], [2]], PaperPlan(rank=RANK, rounds=3000, tolerance=0.01))
    assert traffic.rounds < 3000
    assert any("no longer falls" in note for note in traffic.notes)


def test_the_ledger_counts_the_real_messages():
    heard = {"up": 0, "down": 0}

    def tap(direction, _site, data):
        heard[direction] += len(data)

    _, traffic = run([[0], [1], [2]], plan(schedule="synchronous"), tap)
    assert (traffic.bytes_up, traffic.bytes_down) == (heard["up"], heard["down"])
    assert traffic.messages_up["gradient"] == 3 * traffic.rounds
    # One upload: N x k numbers of 8 bytes, one count, and a small header.
    each = traffic.up["gradient"] / traffic.messages_up["gradient"]
    assert 8 * N * RANK < each < 8 * N * RANK + 300


@pytest.mark.parametrize("schedule", ["prompt", "synchronous"])
def test_the_boundary(schedule):
    """Nothing that the coordinator can reach, at any moment, is a site's; no upload holds a
    reading, a latent vector or a weight of the graph."""
    Z, known = readings()
    marker = 0.123456789012345
    Z[known] = np.where(np.arange(known.sum()) % 7 == 0, marker, Z[known])
    coordinator, sites, traffic = build([[0], [1], [2]], plan(schedule=schedule), Z=Z, known=known)

    def private():
        states = [site.program.state for site in sites]
        latent = [array for state in states for array in (state.P, state.kept)]
        regions = [region for state in states for region in state.regions]
        return latent + [a for r in regions for a in (r.data.Y, r.data.J, r.L)]

    watch = Boundary(coordinator, private, secrets={marker})
    local.run(coordinator, sites, traffic, watch.tap)
    watch.check()


def test_the_boundary_test_can_fail():
    """A program that keeps a site's array, even in a local name or a closure, is caught."""
    Z, known = readings()
    for leak in ("local", "closure", "attribute", "upload"):
        coordinator, sites, traffic = build([[0], [1], [2]], plan(), Z=Z, known=known)
        stolen = sites[0].program.state.regions[0].data.Y
        honest = coordinator._program

        def spy(honest=honest, stolen=stolen, leak=leak):
            kept = stolen if leak == "local" else None
            look = (lambda: stolen) if leak == "closure" else None
            replies = None
            while True:
                try:
                    ask = honest.send(replies)
                except StopIteration:
                    return
                replies = yield ask
                assert kept is None or look is None

        if leak in ("local", "closure"):
            coordinator._program = spy()
        if leak == "attribute":
            coordinator.leak = {"deep": [stolen]}
        secrets = {float(stolen.max())} if leak != "upload" else {1.5}
        watch = Boundary(coordinator, lambda stolen=stolen: [stolen], secrets)
        if leak == "upload":
            watch.tap("up", "site0", np.array([0.5, 1.5]).tobytes())
        local.run(coordinator, sites, traffic, watch.tap)
        with pytest.raises(AssertionError):
            watch.check()


def test_messages_at_the_wrong_time_are_refused():
    coordinator, sites, _ = build([[0], [1], [2]], plan())
    envelopes = dict(coordinator.start())
    answer = sites[0].receive(envelopes["site0"])
    with pytest.raises(ProtocolError, match="old or repeated"):
        sites[0].receive(envelopes["site0"])
    assert coordinator.receive(answer) == []
    with pytest.raises(ProtocolError, match="twice"):
        coordinator.receive(answer)
    stranger = Answer("run", 1, "keep", "site1", {})
    with pytest.raises(ProtocolError, match="answers 'keep' to 'hello'"):
        coordinator.receive(encode(stranger, PROTOCOL))
    old = Answer("run", 9, "keep", "site1", {})
    with pytest.raises(ProtocolError, match="not awaited"):
        coordinator.receive(encode(old, PROTOCOL))
    counts = {"sensors": np.array(1), "readings": np.array(1), "turns": np.array([0])}
    with pytest.raises(ProtocolError, match="was not asked"):
        coordinator.receive(encode(Answer("run", 1, "hello", "nobody", counts), PROTOCOL))


def test_a_site_refuses_what_is_not_for_it_and_stays_as_it_was():
    _, sites, _ = build([[0], [1], [2]], plan())
    with pytest.raises(ProtocolError, match="for site1 came here"):
        sites[0].receive(encode(Question("run", 1, "hello", "site1", {}), PROTOCOL))
    sites[0].receive(encode(Question("run", 1, "hello", "*", {}), PROTOCOL))
    with pytest.raises(ProtocolError, match="of run 'other'"):
        sites[0].receive(encode(Question("other", 2, "hello", "*", {}), PROTOCOL))
    wrong = {"Q": np.zeros((N + 1, RANK))}
    with pytest.raises(ProtocolError, match="shape"):
        sites[0].receive(encode(Question("run", 2, "score", "*", wrong), PROTOCOL))
    sites[0].receive(encode(Question("run", 2, "hello", "*", {}), PROTOCOL))


def test_weights_change_the_result():
    plain, _ = run([[0], [1], [2]], plan(weights=Weights()))
    for weights in (Weights(ridge=0.1), Weights(spatial=0.5), Weights(temporal=0.5)):
        other, _ = run([[0], [1], [2]], plan(weights=weights))
        assert not np.allclose(other, plain)
