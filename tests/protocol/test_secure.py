"""Secure sums inside the federation: same bits, hidden terms, sites that leave."""

import numpy as np
import pytest

from flfl import FLFL
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError, OutOfRangeError
from flfl.protocol.messages import Exchange, Field, ProtocolError, Question, bytes_by_kind, encode
from flfl.protocol.session import Ask, Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.secagg import BelowThresholdError
from flfl.secagg.wire import FORM
from flfl.secagg.wire import decode as frame_of
from flfl.transport import local

pytestmark = pytest.mark.usefixtures("every_engine")

PROTOCOL = {
    "count": Exchange(
        {"x": Field("float")}, {"a": Field("sum", ("size",)), "b": Field("sum", ("*", 2))}
    ),
    "whole": Exchange({}, {"a": Field("sum", ("size",))}, cohort="whole"),
    "fix": Exchange({}, {"a": Field("sum", ("size",))}, cohort="fixes"),
    "tell": Exchange({}, {}),
    "name": Exchange({}, {"who": Field("int")}),
    "mixed": Exchange({}, {"who": Field("int"), "sum": Field("sum")}),
}
SIZES = {"size": 3}
SECURE = ("keys", "shares", "unmask")


def kind_of(data):
    return next(iter(bytes_by_kind(data)))


class Counting:
    """A site that holds one number."""

    def __init__(self, number):
        self.number, self.told, self.sizes = number, 0, SIZES

    def answer(self, kind, body):
        if kind == "tell":
            self.told += 1
            return {}
        if kind == "name":
            return {"who": np.array(1)}
        if kind in ("whole", "fix"):
            return {"a": np.full(3, self.number)}
        return {
            "a": np.full(3, self.number * float(body["x"])),
            "b": np.full((2, 2), -self.number),
        }


def program(got):
    for x in (1.0, 2.0, 3.0):
        got.append((yield Ask("count", {"x": x})))
        got.append((yield Ask("tell")))


def federation(n, secure, asks=program, witness=None):
    got = []
    names = [f"s{i}" for i in range(n)]
    sums, hiding = local.secure(names) if secure else (None, {})
    sites = [
        Site(name, Counting(10.0**i), PROTOCOL, hiding.get(name)) for i, name in enumerate(names)
    ]
    coordinator = Coordinator(asks(got), PROTOCOL, names, SIZES, witness=witness, security=sums)
    return coordinator, sites, got


def carry(coordinator, sites, lost=lambda name, kind: False):
    by_name = {site.name: site for site in sites}
    outbox, asked = list(coordinator.start()), []
    while outbox:
        name, data = outbox.pop(0)
        asked.append((name, kind_of(data)))
        if lost(name, data):
            outbox += coordinator.absent(name)
        else:
            outbox += coordinator.receive(by_name[name].receive(data))
    return asked


@pytest.mark.parametrize("secure", [False, True])
def test_sums_questions_without_an_answer_and_the_witness(secure):
    seen = []
    coordinator, sites, got = federation(
        4, secure, witness=lambda ask, replies: seen.append((ask, replies))
    )
    local.run(coordinator, sites, Traffic())
    assert coordinator.done
    assert [site.program.told for site in sites] == [3, 3, 3, 3]
    assert [r.total["a"].tolist() for r in got[::2]] == [[x * 1111.0] * 3 for x in (1, 2, 3)]
    assert got[0].total["b"].shape == (2, 2)
    assert got[0].sites == got[1].sites == ("s0", "s1", "s2", "s3")
    assert [ask.kind for ask, _ in seen] == 3 * ["count", "tell"]
    assert [replies for _, replies in seen] == got


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("kind", ["ask", "reveal", "tell"])
def test_a_site_that_leaves_is_out_and_the_program_is_told_who_is_in(secure, kind):
    left = []

    def lost(name, data):
        now = frame_of(data).kind if data.startswith(FORM) else kind_of(data)
        now = "ask" if now == "count" else now
        if name == "s2" and not left and now == kind and len(got) >= 1:
            left.append(now)
            return True
        return False

    coordinator, sites, got = federation(6, secure)
    asked = carry(coordinator, sites, lost)
    if not secure and kind == "reveal":
        assert not left
        return
    assert coordinator.done
    everyone, rest = tuple(f"s{i}" for i in range(6)), ("s0", "s1", "s3", "s4", "s5")
    assert got[0].sites == everyone
    # Whoever uploaded counts, even if it leaves right after.
    second = everyone if kind == "reveal" else rest
    assert [r.sites for r in got[2:]] == [second, rest, rest, rest]
    for replies, x in zip(got[::2], (1, 2, 3), strict=True):
        wanted = x * sum(10.0 ** int(name[1]) for name in replies.sites)
        assert replies.total["a"].tolist() == [wanted] * 3
    index = max(i for i, (name, _) in enumerate(asked) if name == "s2")
    assert index < len(asked) - 12
    assert coordinator.sites == rest


def test_below_the_threshold_the_run_stops_without_a_sum():
    coordinator, sites, got = federation(6, True)
    gone = {"s0", "s1"}
    with pytest.raises(BelowThresholdError, match="4 of 6 sites are left and 5 are needed"):
        carry(coordinator, sites, lambda name, data: name in gone and kind_of(data) == "count")
    assert got == []


def test_no_site_of_a_plain_run_is_left():
    coordinator, sites, _ = federation(3, False)
    with pytest.raises(ProtocolError, match="all sites are gone"):
        carry(coordinator, sites, lambda name, data: True)


def test_a_question_for_a_site_that_is_gone_is_an_error():
    def asks(_):
        yield Ask("tell", to="s1")

    coordinator, sites, _ = federation(3, False, asks)
    with pytest.raises(ProtocolError, match="the site that was asked for 'tell' is gone"):
        carry(coordinator, sites, lambda name, data: True)


@pytest.mark.parametrize(("kind", "body"), [("count", {"x": np.array(1.0)}), ("mixed", {})])
def test_a_secure_site_gives_no_sum_in_the_plain(kind, body):
    _, sites, _ = federation(3, True)
    question = Question("run", 1, kind, "*", body)
    with pytest.raises(ProtocolError, match="in secure sums only"):
        sites[0].receive(encode(question, PROTOCOL))


def test_a_plain_site_takes_no_part_in_secure_sums():
    coordinator, _, _ = federation(3, True)
    plain = Site("s0", Counting(1.0), PROTOCOL)
    with pytest.raises(ProtocolError, match="takes no part"):
        plain.receive(dict(coordinator.start())["s0"])


def test_a_sum_of_one_site_is_refused():
    def asks(_):
        yield Ask("count", {"x": 1.0}, to="s0")

    coordinator, sites, _ = federation(3, True, asks)
    with pytest.raises(ProtocolError, match="hides nothing"):
        carry(coordinator, sites)


def test_a_question_that_is_no_sum_is_not_answered_under_masks():
    sums, hiding = local.secure(["s0", "s1", "s2"])
    sites = {n: Site(n, Counting(1.0), PROTOCOL, s) for n, s in hiding.items()}
    outbox = list(sums.start())
    while outbox:
        name, data = outbox.pop(0)
        outbox += sums.receive(sites[name].receive(data))
    question = encode(Question("run", 1, "name", "*", {}), PROTOCOL)
    with pytest.raises(ProtocolError, match="not answered by sums"):
        sites["s0"].receive(dict(sums.ask(question))["s0"])


def test_a_number_beyond_the_agreed_bound_stops_the_site():
    coordinator, sites, _ = federation(5, True)
    # 2^30 in steps of 2^-30 is 2^60: fine for four sites, too much for five.
    sites[3].program.number = 2.0**30
    with pytest.raises(OutOfRangeError, match="5 sites is beyond"):
        carry(coordinator, sites)


def test_the_coordinator_sees_masks_where_it_saw_sums():
    plain, hidden = {}, {}

    def tap(store):
        def listen(direction, site, data):
            if direction == "up" and kind_of(data) == "count":
                store.setdefault(site, []).append(data)

        return listen

    for secure, store in ((False, plain), (True, hidden)):
        coordinator, sites, _ = federation(4, secure)
        local.run(coordinator, sites, Traffic(), tap(store))
    fixed = np.array([2**30, -(2**30)], "<i8")
    assert all(value.tobytes() in b"".join(plain["s0"]) for value in fixed)
    assert not any(value.tobytes() in b"".join(hidden["s0"]) for value in fixed)


@pytest.fixture(scope="module")
def network():
    return synthesize(12, 160, rank=3, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


class TestEstimator:
    def fit(self, network, **settings):
        table, sensors = network
        sites = [f"owner{i % 4}" for i in range(12)]
        model = FLFL(effort="quick", **settings)
        return model.fit(table.values, sensors=sensors, sites=sites)

    def test_same_bits_with_and_without_and_traffic_tells_what_security_adds(self, network):
        hidden, plain = self.fit(network), self.fit(network, secure=False)
        assert hidden.secure_
        assert not plain.secure_
        for name in ("estimates_", "lower_", "upper_", "holdout_", "added_error_"):
            np.testing.assert_array_equal(getattr(hidden, name), getattr(plain, name))
        assert hidden.settings_ == plain.settings_
        assert any("secure sums are off" in note for note in plain.traffic_.notes)
        assert not any("secure" in note or "hidden" in note for note in hidden.traffic_.notes)
        for mine, theirs in (
            (hidden.traffic_.up, plain.traffic_.up),
            (hidden.traffic_.down, plain.traffic_.down),
        ):
            assert set(mine) - set(theirs) == set(SECURE)
            payload = sum(size for kind, size in mine.items() if kind not in SECURE)
            assert payload <= 1.3 * theirs.total()
        sums = [model.traffic_.messages_up["release"] for model in (hidden, plain)]
        assert sums == [4, 4]

    def test_new_slots_and_new_sensors(self, network):
        table, sensors = network
        sites = [f"owner{i % 4}" for i in range(12)]
        first, second = table.values.iloc[:110], table.values
        results = []
        for secure in (True, False):
            model = FLFL(effort="quick", secure=secure).fit(first, sensors=sensors, sites=sites)
            warm = FLFL(effort="quick", secure=secure).fit(
                second, sensors=sensors, sites=sites, warm_start=model.remembered_
            )
            assert warm.secure_ == secure
            results.append((warm.estimates_, warm.fold_in(second.iloc[:, :5].add_prefix("new"))))
        for one, other in zip(*results, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_two_sites_run_and_say_that_their_sums_are_not_hidden(self, network):
        table, sensors = network
        sites = ["a", "b"] * 6
        model = FLFL(effort="quick").fit(table.values, sensors=sensors, sites=sites)
        assert not model.secure_
        assert any("not hidden" in note and "2 sites" in note for note in model.traffic_.notes)
        assert not set(SECURE) & set(model.traffic_.up)

    def test_two_sites_that_insist_are_refused(self, network):
        table, sensors = network
        with pytest.raises(InputError, match="need 3 sites or more: a sum over 2 sites does not"):
            FLFL(secure=True).fit(table.values, sensors=sensors, sites=["a", "b"] * 6)


def whole(got):
    got.append((yield Ask("fix")))
    got.append((yield Ask("count", {"x": 1.0})))
    got.append((yield Ask("whole")))


def leaves(name, during):
    """A site that vanishes when it is asked for a kind."""
    return lambda site, data: site == name and kind_of(data) == during


def test_a_whole_sum_is_opened_for_all():
    coordinator, sites, got = federation(4, True, whole)
    carry(coordinator, sites)
    assert got[-1].sites == ("s0", "s1", "s2", "s3")
    assert got[-1].total["a"][0] == 1111.0


def test_a_whole_sum_stays_closed_when_somebody_leaves_in_it():
    """The sum of the rest, next to sums of all, would be the difference: the site that left."""
    coordinator, sites, got = federation(4, True, whole)
    with pytest.raises(BelowThresholdError, match=r"s2 left during 'whole'.*stays hidden"):
        carry(coordinator, sites, leaves("s2", "whole"))
    assert len(got) == 2


def test_a_whole_sum_is_not_given_to_a_smaller_cohort_than_prepared_it():
    coordinator, sites, got = federation(4, True, whole)
    with pytest.raises(ProtocolError, match="for all of the sites that prepared it; s2 left"):
        carry(coordinator, sites, leaves("s2", "count"))
    assert len(got) == 2
    assert got[-1].sites == ("s0", "s1", "s3")
