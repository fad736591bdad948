"""Secure sums equal plain sums, whoever drops when and in whatever order messages come."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.errors import OutOfRangeError
from flfl.secagg import BelowThresholdError, SecureSumError
from flfl.secagg.wire import Frame, decode, encode
from secure_parties import Party, draw_values, shuffler

STEPS = [(kind, when) for kind in ("ask", "reveal", "agree") for when in ("request", "response")]
SETUP = [(kind, when) for kind in ("hello", "bundle") for when in ("request", "response")]


@settings(max_examples=30)
@given(
    n=st.integers(3, 9),
    shape=st.sampled_from([(), (1,), (0,), (3, 2), (17,)]),
    seed=st.integers(0, 2**32 - 1),
    drops=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 3), st.sampled_from(STEPS)), max_size=4
    ),
    early=st.lists(st.tuples(st.integers(0, 8), st.sampled_from(SETUP)), max_size=1),
)
def test_exact_whoever_drops_when_and_in_whatever_order(n, shape, seed, drops, early):
    """Over random cohorts, dropouts at every phase and orders: the total over the sites that
    uploaded, to the last bit; or, below the threshold, no total at all."""
    party, gone = Party(n), set()
    plan = {(f"site{i % n:03d}", 0, *step) for i, step in early}
    plan |= {(f"site{i % n:03d}", number + 1, *step) for i, number, step in drops}
    number = 0
    uploaded = set()

    def lost(name, kind, when):
        if (name, number, kind, when) in plan:
            gone.add(name)
            return True
        if kind == "ask" and when == "response":
            uploaded.add(name)
        return False

    try:
        party.start(shuffle=shuffler(seed), lost=lost)
        for number in (1, 2, 3, 4):
            draw_values(party, shape, seed + number, most=2**62 // n)
            uploaded.clear()
            here = set(party.sums.sites)
            outcome = party.sum(shuffle=shuffler(seed), lost=lost)
            assert set(outcome.sites) == uploaded <= here
            assert not here & (gone - here)
            (total,) = outcome.arrays
            np.testing.assert_array_equal(total, party.plain(outcome.sites), strict=True)
    except BelowThresholdError:
        assert n - len(gone) < party.roster.threshold
        assert party.sums.phase == "failed"


def test_drops_up_to_the_threshold_and_one_more():
    for extra in (0, 1):
        party = Party(9).start()
        draw_values(party, (5,), 0)
        leaving = {f"site{i:03d}" for i in range(2 + extra)}

        def lost(name, kind, when, leaving=leaving):
            return name in leaving and (kind, when) == ("ask", "response")

        if extra:
            with pytest.raises(BelowThresholdError, match="6 of 9 sites are left and 7 are needed"):
                party.sum(lost=lost)
            with pytest.raises(SecureSumError):
                party.sums.ask(b"again")
        else:
            outcome = party.sum(lost=lost)
            assert not leaving & set(outcome.sites)
            np.testing.assert_array_equal(outcome.arrays[0], party.plain(outcome.sites))


def test_a_site_that_uploaded_counts_even_if_it_leaves_then_and_is_not_asked_again():
    party = Party(6).start()
    draw_values(party, (4,), 1)
    outcome = party.sum(lost=lambda name, kind, when: name == "site002" and kind == "reveal")
    assert "site002" in outcome.sites
    assert "site002" not in party.sums.sites
    asked = [name for name, _ in party.sums.ask(b"next")]
    assert asked == [f"site{i:03d}" for i in (0, 1, 3, 4, 5)]


def test_a_site_known_to_be_gone_between_sums_costs_no_agreement():
    party = Party(6).start()
    draw_values(party, (4,), 1)
    party.sum()
    assert party.sums.absent("site001") == []
    kinds = []
    outcome = party.sum(lost=lambda name, kind, when: kinds.append(kind))
    assert outcome.sites == ("site000", "site002", "site003", "site004", "site005")
    assert set(kinds) == {"ask", "reveal"}


def test_two_round_trips_a_sum_while_nobody_drops():
    party = Party(5).start()
    kinds = []
    for _ in range(3):
        party.sum(lost=lambda name, kind, when: kinds.append((name, kind)) if when == "request"
                  else None)  # fmt: skip
    assert len(kinds) == 3 * 5 * 2


@pytest.mark.slow
def test_a_sparse_graph_of_many_sites_with_dropouts():
    """Sums are exact. And a coordinator cannot cut a site off by declaring its neighbours dropped:
    it opens nothing then, though enough sites are left."""
    n = 104
    party = Party(n).start()
    network = party.sums._network
    assert len(network.neighbours["site000"]) < n - 1
    leaving = {"site003", "site050", "site077"}
    draw_values(party, (3,), 2)
    outcome = party.sum(lost=lambda name, kind, when: name in leaving and kind == "ask")
    np.testing.assert_array_equal(outcome.arrays[0], party.plain(outcome.sites))
    assert not leaving & set(outcome.sites)
    near = [name for name in network.neighbours["site000"] if name not in leaving]
    gone = set(near[: len(near) + 2 - network.threshold])
    assert n - len(leaving) - len(gone) >= party.roster.threshold
    with pytest.raises(BelowThresholdError, match="too few of its neighbours"):
        party.sum(lost=lambda name, kind, when: name in gone and kind == "ask")


def test_a_number_out_of_range_is_a_loud_error_and_can_be_answered_better():
    party = Party(4).start()
    party.values["site001"] = np.array([2**60 + 1])
    envelopes = dict(party.sums.ask(b"q"))
    with pytest.raises(OutOfRangeError, match="4 sites is beyond"):
        party.answer("site001", envelopes["site001"])
    party.values["site001"] = np.array([2**60])
    assert party.carry(envelopes.items()).arrays[0].tolist() == [2**60]


def test_answers_of_different_shapes_are_refused():
    party = Party(3).start()
    party.values["site001"] = np.zeros((2, 1), np.int64)
    with pytest.raises(SecureSumError, match="another shape"):
        party.sum()


@pytest.mark.parametrize(
    "arrays",
    [
        [np.zeros(2)],
        [np.zeros((1,) * 5, np.uint64)],
        [b"12345678"],
        np.zeros(2, np.uint64),
        [[np.zeros(2, np.uint64)]],
    ],
)
def test_an_upload_of_anything_but_words_is_refused(arrays):
    party = Party(3).start()
    frame = decode(party.answer("site000", dict(party.sums.ask(b"q"))["site000"]))
    sections = {**frame.sections, "arrays": arrays}
    upload = Frame("masked", "run", 1, "site000", sections)
    with pytest.raises(SecureSumError, match="'arrays' of 'masked' has a wrong form"):
        party.sums.receive(encode(upload, party.identities["site000"], party.roster))


def test_masks_are_fresh_for_every_sum():
    """The same numbers, twice: the uploads share nothing."""
    party = Party(4).start()
    draw_values(party, (500,), 3)
    seen = []
    for _ in range(2):
        party.sum()
        seen.append(decode(party.uploads["site000"]).sections["arrays"][0])
    assert (seen[0] != seen[1]).all()
    assert (seen[0].view(np.int64) != party.values["site000"]).all()


def test_an_upload_does_not_depend_on_its_numbers_in_any_visible_way():
    """Uploads of all-zero and of huge numbers are both uniform to the eye."""
    party = Party(4).start()
    for values in (np.zeros(2000, np.int64), np.full(2000, 2**59)):
        party.values = dict.fromkeys(party.values, values)
        party.sum()
        words = decode(party.uploads["site002"]).sections["arrays"][0]
        ones = np.unpackbits(words.view(np.uint8)).mean()
        assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(2000 * 64)
