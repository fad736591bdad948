"""The default method's federation: what crosses the boundary, what is refused, what it survives."""

import numpy as np
import pandas as pd
import pytest

from boundary import Boundary
from flfl import FLFL
from flfl.data.sensors import Sensors
from flfl.data.synth import synthesize
from flfl.engines import inprocess
from flfl.errors import FLFLError, InputError
from flfl.federation.coordinator import Coordinator
from flfl.federation.factors import PROTOCOL, FactorPlan, FactorSite, RefusedError, coordinate
from flfl.federation.factors.keeping import Sensing
from flfl.federation.ledger import Ledger
from flfl.federation.messages import decode_answer, decode_question
from flfl.federation.site import Site
from flfl.model.graph import map_box, to_plane
from parties import asked_until, parties

pytestmark = pytest.mark.usefixtures("every_engine")


@pytest.fixture(scope="module")
def network():
    return synthesize(16, 400, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


def test_the_boundary(network):
    """No upload holds a reading, a latent vector, a coordinate or a projection; nothing that the
    coordinator reaches is a site's."""
    table, sensors = network
    coordinator, sites, ledger, _ = parties(table, sensors)
    values = table.values.to_numpy()
    secrets = {float(v) for v in values[table.known][:200] if v != round(v)}
    secrets |= {float(v) for v in sensors.coordinates.ravel()}

    def private():
        held = []
        for site in sites:
            program = site.program
            held += [program.sensing.raw, program.sensing.known, program.sensing.plane]
            held += [getattr(program, n) for n in ("P", "B", "r", "Y", "u") if hasattr(program, n)]
        return held

    watch = Boundary(coordinator, private, secrets)
    inprocess.run(coordinator, sites, ledger, watch.tap)
    watch.check()


def test_the_coordinator_gets_sums_only():
    """Every answer of the protocol is summed: no field is kept apart by site."""
    assert all(
        field.type == "sum" for exchange in PROTOCOL.values() for field in exchange.answer.values()
    )


def test_numbers_per_reading_stay_under_the_count_in_every_window(network):
    table, sensors = network
    heard = {}

    def tap(direction, _site, data):
        if direction == "down":
            question = decode_question(data, PROTOCOL, {})
            if question.kind == "whiten":
                heard.update({k: v.copy() for k, v in question.body.items()})

    coordinator, sites, ledger, run = parties(table, sensors)
    inprocess.run(coordinator, sites, ledger, tap)
    readings = np.add.reduceat(heard["counts"], heard["edges"][:-1])
    assert (heard["released"] <= 0.3 * readings + 1e-9).all()
    assert heard["released"].sum() == ledger.numbers == run.windows.released.sum()
    assert 0 < ledger.numbers / table.known.sum() <= 0.3


def test_components_that_are_not_released_are_not_sent(network):
    table, sensors = network
    coordinator, sites, ledger, run = parties(table, sensors)
    uploads = []

    def tap(direction, _site, data):
        if direction == "up":
            answer = decode_answer(data, PROTOCOL, {})
            if answer.kind in ("open", "round"):
                uploads.append(answer.body["g"].copy())

    inprocess.run(coordinator, sites, ledger, tap)
    beyond = np.arange(uploads[0].shape[1]) >= run.windows.released[:, None]
    assert all((g[beyond] == 0).all() for g in uploads)
    assert any((g != 0).any() for g in uploads)


def test_exposure_is_computed_and_logged_before_the_first_upload(network):
    table, sensors = network
    coordinator, sites, ledger, _ = parties(table, sensors)
    at_first_upload = {}

    def tap(direction, site, data):
        if direction == "up" and decode_answer(data, PROTOCOL, {}).kind == "open":
            program = next(s.program for s in sites if s.name == site)
            at_first_upload[site] = list(program.promise.log)

    inprocess.run(coordinator, sites, ledger, tap)
    for site in sites:
        log = " ".join(at_first_upload[site.name])
        assert all(sensor in log for sensor in site.program.sensing.ids)
        assert (site.program.exposure <= 0.5 + 1e-6).all()


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("whiten", lambda b: b.update(released=b["released"] + 5), "numbers a reading"),
        ("whiten", lambda b: b.update(counts=0 * b["counts"]), "leave out"),
        ("whiten", lambda b: b.update(edges=b["edges"][::-1]), "do not cover|out of order"),
        ("open", lambda b: b.update(noise=0.01 * b["noise"]), "leaves out its own part"),
        ("guard", lambda b: b.update(noise=100 * b["noise"]), "would be exposed"),
        ("round", lambda b: b.update(A=2 * np.eye(len(b["A"]))), "not stable"),
        ("round", lambda b: b.update(S=-b["S"]), "not a covariance"),
        ("round", lambda b: b.update(m=1e9 * b["m"]), "beyond all bounds"),
        ("span", lambda b: b.update(scale=np.array(-1.0)), "no sense"),
        ("span", lambda b: b.update(slots=np.array(10**6)), "asked for 1000000 of 400"),
        ("span", lambda b: b.update(slots=np.array(399)), "asked for 399 of 400"),
        ("units", lambda b: b.update(trial=np.array(77)), "no trial 77"),
    ],
)
def test_a_site_refuses_what_passes_its_cap_or_makes_no_sense(network, kind, change, words):
    table, sensors = network
    coordinator, sites, _, _ = parties(table, sensors)
    with pytest.raises(RefusedError, match=words):
        asked_until(coordinator, sites, kind, change)


def test_the_readings_are_in_one_upload_only(network):
    """After the first upload readings that change no latent vector change no answer: what a round
    sends is the model's part."""
    table, sensors = network

    class Forgetful(FactorSite):
        """Loses the series that speaks once it has been sent."""

        def _round(self, **body):
            self._series = np.full_like(self.Y, 1e6)
            return super()._round(**body)

    results = []
    for site in (FactorSite, Forgetful):
        coordinator, sites, ledger, _ = parties(table, sensors, site=site)
        inprocess.run(coordinator, sites, ledger)
        results.append(np.vstack([s.program.recover() for s in sites]))
    np.testing.assert_array_equal(*results)


def test_products_of_held_out_errors_are_few_and_a_site_gives_no_more(network):
    table, sensors = network
    coordinator, sites, ledger, _ = parties(table, sensors)
    numbers = []

    def tap(direction, _site, data):
        if direction == "up":
            answer = decode_answer(data, PROTOCOL, {})
            if "errors" in answer.body and answer.kind != "trial":
                numbers.append(np.count_nonzero(np.triu(answer.body["errors"])))

    inprocess.run(coordinator, sites, ledger, tap)
    heads = [site.program.heads for site in sites]
    held = sum(len(h.near) for h in heads)
    assert 0 < sum(numbers) / len(sites) <= 0.3 * held
    even = np.full((heads[0].sizes["bins"], heads[0].sizes["candidates"]), 1 / 8)
    with pytest.raises(FLFLError, match="times"):
        heads[0].answer("mix", {"weights": even, "knee": np.array(0.1)})
    for groups in ([0] * 8, [1] * 9, [0, 2, *[2] * 7]):
        with pytest.raises(FLFLError, match="groups"):
            heads[0].answer("heads", {"groups": np.array(groups), "detail": np.array(2)})


def test_hidden_readings_do_not_reach_the_method(network):
    table, sensors = network
    results = []
    for poison in (np.nan, 1e9):
        values = table.values.where(table.known, poison).to_numpy().T
        plane = to_plane(sensors.coordinates, sensors.kind)
        plan = FactorPlan(box=map_box(plane), boost=True)
        sensing = [
            Sensing(f"s{n}", sensors.ids[n::4], values[n::4], table.known.T[n::4], plane[n::4],
                    table.positions)
            for n in range(4)
        ]  # fmt: skip
        sites = [Site(s.name, FactorSite(s, plan, 0), PROTOCOL) for s in sensing]
        sizes = {}
        run = coordinate(plan, values.shape[1], Ledger(), sizes)
        coordinator = Coordinator(run.program(), PROTOCOL, [s.name for s in sites], sizes)
        inprocess.run(coordinator, sites, Ledger())
        results.append(np.vstack([s.program.recover() for s in sites]))
    np.testing.assert_array_equal(*results)


def test_a_round_that_raises_the_error_is_undone_and_said(network):
    table, sensors = network

    class Liar(FactorSite):
        """Reports a held-out error that jumps once, as a diverging run would."""

        rounds = 0

        def _sums(self, *series):
            reply = dict(super()._sums(*series))
            self.rounds += 1
            if self.rounds == 4:
                reply["held"] *= 10
            return reply

    coordinator, sites, ledger, _ = parties(table, sensors, site=Liar)
    inprocess.run(coordinator, sites, ledger)
    assert any("undone" in note for note in ledger.notes)
    assert all(np.isfinite(s.program.recover()).all() for s in sites)


def test_a_number_that_is_not_finite_from_a_site_stops_the_run(network):
    table, sensors = network

    class Broken(FactorSite):
        def _sums(self, *series):
            reply = super()._sums(*series)
            return {**reply, "F": np.full(reply["F"].shape, np.nan)}

    coordinator, sites, ledger, _ = parties(table, sensors, site=Broken)
    with pytest.raises(OverflowError, match="not finite"):
        inprocess.run(coordinator, sites, ledger)


class TestEstimator:
    """Odd networks, through the public face."""

    def table(self, n_sensors, n_slots=120, seed=0):
        t = np.arange(n_slots)
        rng = np.random.default_rng(seed)
        X = np.sin(t / 7)[:, None] * rng.uniform(1, 2, n_sensors) + rng.uniform(3, 9, n_sensors)
        X += 0.1 * rng.standard_normal(X.shape)
        X[rng.random(X.shape) < 0.2] = np.nan
        return X

    def test_a_single_sensor_works_alone_and_sends_nothing_of_its_readings(self):
        model = FLFL(effort="quick").fit(self.table(1))
        assert np.isfinite(model.estimates_).all()
        assert model.ledger_.numbers == 0
        assert any("nothing is shared" in note for note in model.ledger_.notes)

    @pytest.mark.parametrize("n_sensors", [2, 3, 5])
    def test_few_sensors(self, n_sensors):
        model = FLFL().fit(self.table(n_sensors))
        assert np.isfinite(model.estimates_).all()
        assert model.exposure_.max() <= 0.5 + 1e-6

    def test_a_single_site(self):
        X = self.table(6)
        model = FLFL(effort="quick").fit(X, sites=["one"] * 6)
        assert np.isfinite(model.estimates_).all()

    def test_all_readings_equal(self):
        X = np.full((60, 4), 5.0)
        X[3:6, 1] = np.nan
        np.testing.assert_allclose(FLFL().fit(X).estimates_, 5.0, atol=1e-3)

    def test_a_sensor_with_one_reading_and_slots_that_nobody_observed(self):
        X = self.table(6)
        X[1:, 0] = np.nan
        X[0, 0] = 4.0
        X[50:60] = np.nan
        model = FLFL().fit(X)
        assert np.isfinite(model.estimates_).all()
        assert (model.lower_ <= model.upper_).all()

    @pytest.mark.parametrize("rank", [7, 50])
    def test_a_rank_that_the_guard_does_not_allow(self, rank):
        with pytest.raises(InputError, match=f"rank {rank} is more than 6 sensors can shelter"):
            FLFL(rank=rank).fit(self.table(6))

    @pytest.mark.parametrize(
        "options",
        [
            {"max_exposure": 0.2},
            {"max_exposure": 1.0},
            {"projection": "learned"},
            {"projection": "adaptive", "max_exposure": 1.0},
            {
                "rank": 2,
                "transformation": "sqrt",
                "season": 0,
                "length": 2.0,
                "noise": 0.2,
                "rounds": 2,
            },
            {"season": 24},
        ],
    )
    def test_everything_can_be_fixed_by_hand(self, options):
        model = FLFL(effort="quick", **options).fit(self.table(12, 200))
        assert np.isfinite(model.estimates_).all()
        if "rank" in options:
            assert (model.settings_.rank, model.n_rounds_) == (2, 2)
            assert model.settings_.transform == "sqrt"
        if options.get("max_exposure", 0.5) < 1:
            assert model.ledger_.numbers <= 0.6 * options.get("max_exposure", 0.5) * (12 * 200)

    def test_no_cap_can_be_promised_where_the_projection_is_renewed(self):
        with pytest.raises(InputError, match="shows the readings anew in every round"):
            FLFL(projection="adaptive", max_exposure=0.5).fit(self.table(6))

    def test_the_network_helps_and_spikes_do_not_wreck_it(self):
        rng = np.random.default_rng(1)
        t = np.arange(600)
        common = np.cumsum(rng.standard_normal((600, 2)), axis=0) / 5
        truth = common @ rng.uniform(0.5, 1.5, (2, 14)) + 0.2 * rng.standard_normal((600, 14)) + 20
        X = truth.copy()
        for i in range(14):
            X[50 + 30 * i : 90 + 30 * i, i] = np.nan
        gaps = np.isnan(X)
        clean = np.abs(FLFL(transformation="none").fit(X).estimates_ - truth)[gaps].mean()
        alone = np.interp(t, t[~gaps[:, 0]], X[~gaps[:, 0], 0])
        assert clean < 0.5 * np.abs(alone - truth[:, 0])[gaps[:, 0]].mean()
        spiked = np.where(~gaps & (rng.random(X.shape) < 0.01), 10 * X, X)
        # The same transformation for both: that spikes may tip that choice is another matter.
        model = FLFL(transformation="none").fit(spiked)
        assert np.abs(model.estimates_ - truth)[gaps].mean() < 1.1 * clean

    def test_intervals_cover(self):
        rng = np.random.default_rng(2)
        common = np.cumsum(rng.standard_normal(900)) / 4
        truth = common[:, None] * rng.uniform(0.8, 1.2, 12) + 0.3 * rng.standard_normal((900, 12))
        X = np.where(rng.random(truth.shape) < 0.3, np.nan, truth)
        model = FLFL(effort="quick").fit(X)
        gaps = np.isnan(X)
        inside = (model.lower_ <= truth) & (truth <= model.upper_)
        assert 0.84 < inside[gaps].mean() < 0.96

    def test_without_coordinates_the_projection_is_keyed_by_the_sensors_names(self):
        X = self.table(10, 200)
        frame = pd.DataFrame(X, columns=[f"s{i}" for i in range(10)])
        model = FLFL(effort="quick").fit(frame)
        assert model.settings_.rank >= 1
        assert model.partition_.site_names == tuple(frame.columns)

    def test_given_sites_are_the_sites(self):
        X = self.table(9, 200)
        sensors = Sensors(
            tuple(map(str, range(9))), np.random.default_rng(0).random((9, 2)), "metric"
        )
        model = FLFL(effort="quick").fit(X, sensors=sensors, sites=list("aaabbbccc"))
        assert model.partition_.site_names == ("a", "b", "c")
        assert set(model.site_logs_) == {"a", "b", "c"}
