"""The paper's protocol: who sees what, whatever the grouping, and what happens when it diverges."""

from dataclasses import replace

import numpy as np
import pytest

from boundary import Boundary
from flfl.paper.federation import PROTOCOL, Motion, PaperPlan, Setting, coordinate
from flfl.paper.graph import path_laplacian, region_laplacian
from flfl.paper.objective import Weights
from flfl.paper.site import PaperSite, Readings
from flfl.protocol.messages import (
    Answer,
    Fixed,
    ProtocolError,
    Question,
    decode,
    encode,
    from_fixed,
)
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.transport import local

pytestmark = pytest.mark.usefixtures("every_engine")

N, M, RANK = 40, 6, 2
REGIONS = np.array([0, 0, 0, 1, 1, 2])
WEIGHTS = Weights(1e-3, 0.1, 0.3)
RULES = [("prompt", "paper"), ("synchronous", "whole"), ("synchronous", "exact")]


def readings(seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(N) / 6
    # All sensors follow one course, each with a touch of another.
    loadings = np.stack([np.ones(M), 0.3 * rng.standard_normal(M)])
    Z = np.stack([np.sin(t), np.cos(t)], axis=1) @ loadings
    return Z.T + 0.05 * rng.standard_normal((M, N)), rng.random((M, N)) < 0.7


def build(groups, plan, Z=None, known=None, seed=3, progress=None):
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
        ids = tuple(f"s{i}" for i in home)
        own = Readings(ids, home, Z[home], known[home], REGIONS[home], laplacians, seed)
        sites.append(Site(f"site{number}", PaperSite(own, plan), PROTOCOL))
    traffic, sizes = Traffic(), {"slots": N}
    program = coordinate(plan, sizes, seed, traffic, progress)
    coordinator = Coordinator(program, PROTOCOL, [site.name for site in sites], sizes)
    return coordinator, sites, traffic


def run(groups, plan, tap=None, **data):
    coordinator, sites, traffic = build(groups, plan, **data)
    local.run(coordinator, sites, traffic, tap)
    out = np.empty((M, N))
    for group, site in zip(groups, sites, strict=True):
        out[np.isin(REGIONS, group)] = site.program.recover()
    return out, traffic


def questions(kind, direction, site, data):
    """The question of a kind that this message puts to the first site, if it is one."""
    if direction == "down" and site == "site0":
        question = decode(Question, data, PROTOCOL, {})
        return [question.body] if question.kind == kind else []
    return []


def plan(schedule="prompt", rule="paper", rounds=20, settings=None, **changes):
    settings = settings or (Setting(RANK, WEIGHTS),)
    changes = {"check_every": 5} | changes
    return PaperPlan(settings, rounds, rule, schedule, **changes)


both = pytest.mark.parametrize(("schedule", "rule"), RULES)


@both
def test_same_seed_same_bits_whatever_the_sites(schedule, rule):
    one, _ = run([[0, 1, 2]], plan(schedule, rule))
    for groups in ([[0], [1], [2]], [[2], [0, 1]], [[0, 2], [1]]):
        other, _ = run(groups, plan(schedule, rule))
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize(("schedule", "rule"), [*RULES, ("prompt", "whole")])
def test_it_learns(schedule, rule):
    Z, known = readings()
    estimates, _ = run([[0], [1], [2]], plan(schedule, rule, rounds=300, check_every=10))
    hidden = ~known
    assert np.abs(estimates - Z)[hidden].mean() < 0.5 * np.abs(Z)[hidden].mean()


def whole_objective(state, Q):
    """The objective with the smoothness of the whole matrix, of one site's training readings."""
    weights, value = state.setting.weights, 0.0
    for region in state.regions:
        data, P = region.data, state.P[region.sensors]
        X = P @ Q.T
        value += (data.residual(P, Q) ** 2).sum()
        value += weights.ridge * (data.per_sensor[:, 0] @ (P**2).sum(1))
        value += weights.ridge * (data.per_slot[:, 0] @ (Q**2).sum(1))
        value += weights.spatial * ((region.L @ X) ** 2).sum()
        value += weights.temporal * (np.diff(X, axis=1) ** 2).sum()
    return value


def test_without_momentum_no_round_raises_the_objective():
    """The step from the curvatures is safe, and so are Newton steps of a whole region at once."""
    heard, strong = [], (Setting(3, Weights(0.01, 2.0, 1.0)),)
    calm = plan("synchronous", "whole", rounds=40, settings=strong, momentum=0.0)
    coordinator, sites, traffic = build([[0], [1, 2]], calm)

    def tap(direction, site, data):
        for body in questions("gradient", direction, site, data):
            heard.append(sum(whole_objective(s.program.state, body["Q"]) for s in sites))

    local.run(coordinator, sites, traffic, tap)
    assert len(heard) == traffic.rounds > 20
    assert (np.diff(heard) <= 1e-9 * heard[0]).all()


def test_momentum_converges_sooner():
    """A quadratic with curvatures from 1 to 1,000, its minimum at zero."""
    bend = np.geomspace(1.0, 1e3, 50)

    def after(rounds, largest):
        motion = Motion.at_rest(np.ones(50))
        for _ in range(rounds):
            motion = motion.step(bend * motion.ahead, 1 / bend[-1], largest)
        return (bend * motion.Q**2).sum()

    assert after(300, 0.95) < 1e-6 * after(300, 0.0)
    # Without a restart it would swing about the minimum of a narrow valley.
    assert after(1000, 0.95) < 1e-12


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


def test_a_step_that_is_too_long_is_cut_and_said():
    estimates, traffic = run([[0], [1], [2]], plan(rounds=60, learning_rate=500.0))
    assert np.isfinite(estimates).all()
    assert any("diverged" in note for note in traffic.notes)


@pytest.mark.parametrize("share", [1e-2, 1e-9])
def test_a_site_that_understates_its_curvature_does_not_break_the_run(share):
    """The step is then far too long: the run goes back and halves it until it holds, or ends with
    the best state that it had."""
    Z, known = readings()
    coordinator, sites, traffic = build([[0, 1, 2]], plan("synchronous", "whole", rounds=200))
    honest = sites[0].program.answer

    def lie(kind, body):
        reply = dict(honest(kind, body))
        if kind == "gradient":
            reply["curvature"] = Fixed((share * reply["curvature"].values).astype(np.int64))
        return reply

    sites[0].program.answer = lie
    local.run(coordinator, sites, traffic)
    estimates = sites[0].program.recover()
    assert any("diverged" in note for note in traffic.notes)
    assert np.abs(estimates).max() < 10
    if share == 1e-2:
        assert np.abs(estimates - Z)[~known].mean() < 0.5 * np.abs(Z)[~known].mean()


@both
def test_early_stop_is_said(schedule, rule):
    _, traffic = run([[0], [1], [2]], plan(schedule, rule, rounds=3000, tolerance=0.01))
    assert traffic.rounds < 3000
    assert any("no longer falls" in note for note in traffic.notes)


def choosing(**changes):
    """A useless setting before one that fits, and one of another rank."""
    settings = (
        Setting(RANK, Weights(5.0, 0.1, 0.3)),
        Setting(RANK, WEIGHTS),
        Setting(1, Weights(5.0, 0.1, 0.3)),
    )
    return plan("synchronous", "whole", rounds=40, settings=settings, cut=0.3, window=30, **changes)


def test_the_setting_is_chosen_on_cut_readings_and_learned_from_all():
    heard = []
    coordinator, sites, traffic = build(
        [[0], [1, 2]], choosing(), progress=lambda *done: heard.append(done)
    )
    starts = []

    def tap(direction, site, data):
        for body in questions("start", direction, site, data):
            starts.append({n: v.tolist() for n, v in body.items() if n != "scale"})

    local.run(coordinator, sites, traffic, tap)
    tried = [{"setting": i, "slots": [5, 35], "held": 0.3} for i in range(3)]
    assert starts == [*tried, {"setting": 1, "slots": [0, N], "held": 0.0}]
    assert "chose setting 2 of 3" in traffic.notes[0]
    assert all(site.program.state.setting.weights == WEIGHTS for site in sites)
    done, totals = zip(*heard, strict=True)
    assert set(totals) == {4 * 40}
    assert list(done) == sorted(done)


def test_too_few_readings_to_choose_by_take_the_first_setting():
    _, traffic = run([[0], [1, 2]], replace(choosing(), cut=0.1))
    assert traffic.messages_down["start"] == 2
    assert not any("chose" in note for note in traffic.notes)


def test_a_choice_does_not_see_hidden_readings_either():
    Z, known = readings()
    clean, _ = run([[0], [1], [2]], choosing())
    spoiled, _ = run([[0], [1], [2]], choosing(), Z=np.where(known, Z, np.nan), known=known)
    np.testing.assert_array_equal(spoiled, clean)


def test_one_sensor_a_site_shows_every_reading():
    """The curvature tells the length of ``p_i``, the gradient its direction, and both the misfit:
    what the paper calls ill-posed is one division."""
    Z, known = readings()
    setting = Setting(RANK, Weights(1e-3, 0.0, 0.3))
    lonely = PaperPlan((setting,), 1, holdout=0.0)
    own = Readings(("a",), np.array([0]), Z[:1], known[:1], np.array([0]), {0: np.zeros((1, 1))}, 3)
    site = PaperSite(own, lonely)
    scale, slots = np.array(2.0), np.array([0, N])
    site.answer("start", {"setting": np.array(0), "slots": slots, "held": 0.0, "scale": scale})
    Q = np.random.default_rng(5).standard_normal((N, RANK))
    reply = site.answer("gradient", {"Q": Q, "move": np.array(1)})
    G, bend = (from_fixed(reply[name].values) for name in ("grad_Q", "curvature"))
    z2, ridge = setting.weights.temporal, setting.weights.ridge
    rows = G - 2 * ridge * known[0][:, None] * Q  # = 2 x p^T, of rank one
    u = np.linalg.svd(rows)[2][0]
    p = u * np.sqrt((bend - ridge) / (1 + 4 * z2))
    misfit = rows @ p / (2 * p @ p)
    read = (Q + z2 * path_laplacian(Q)) @ p - misfit
    flipped = (Q + z2 * path_laplacian(Q)) @ -p + misfit
    error = min(np.abs(guess - Z[0])[known[0]].max() for guess in (read, flipped))
    assert error < 1e-6


def test_the_ledger_counts_the_real_messages():
    heard = {"up": 0, "down": 0}

    def tap(direction, _site, data):
        heard[direction] += len(data)

    _, traffic = run([[0], [1], [2]], plan("synchronous", "whole"), tap)
    assert (traffic.bytes_up, traffic.bytes_down) == (heard["up"], heard["down"])
    assert traffic.messages_up["gradient"] == 3 * traffic.rounds
    # One upload: N x k numbers of 8 bytes, two more, and a small header.
    each = traffic.up["gradient"] / traffic.messages_up["gradient"]
    assert 8 * N * RANK < each < 8 * N * RANK + 300


@both
def test_the_boundary(schedule, rule):
    """Nothing that the coordinator can reach, at any moment, is a site's; no upload holds a
    reading, a latent vector or a weight of the graph."""
    Z, known = readings()
    marker = 0.123456789012345
    Z[known] = np.where(np.arange(known.sum()) % 7 == 0, marker, Z[known])
    coordinator, sites, traffic = build([[0], [1], [2]], plan(schedule, rule), Z=Z, known=known)

    def private():
        states = [site.program.state for site in sites]
        latent = [array for state in states for array in (state.P, state.kept)]
        regions = [region for state in states for region in state.regions]
        held = [array for state in states for array in (state.own.Z, state.own.known)]
        return latent + held + [a for r in regions for a in (r.data.Y, r.data.J, r.L)]

    watch = Boundary(coordinator, private, secrets={marker})
    local.run(coordinator, sites, traffic, watch.tap)
    watch.check()


def test_the_boundary_test_can_fail():
    """A program that keeps a site's array, even in a local name or a closure, is caught."""
    Z, known = readings()
    for leak in ("local", "closure", "attribute", "upload"):
        coordinator, sites, traffic = build([[0], [1], [2]], plan(), Z=Z, known=known)
        stolen = sites[0].program.state.own.Z
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
    plain, _ = run([[0], [1], [2]], plan(settings=(Setting(RANK, Weights()),)))
    for weights in (Weights(ridge=0.1), Weights(spatial=0.5), Weights(temporal=0.5)):
        other, _ = run([[0], [1], [2]], plan(settings=(Setting(RANK, weights),)))
        assert not np.allclose(other, plain)
