"""Laws of the hold-out: it imitates the gaps and leaves every sensor something."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from flfl.ensemble.holdout import (
    EDGES,
    LONGEST,
    distance_bin,
    draw_holdout,
    gap_lengths,
    silent_together,
)

masks = arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=30))


@given(masks, st.floats(0, 0.9), st.integers(0, 100))
def test_only_known_entries_are_hidden_and_two_are_left(J, share, seed):
    hidden = draw_holdout(J, share, np.random.default_rng(seed))
    assert not (hidden & ~J).any()
    left = (J & ~hidden).sum(axis=1)
    assert ((left >= 2) | ~hidden.any(axis=1)).all()


@given(masks)
def test_gap_lengths_add_up_to_what_is_missing(J):
    lengths = gap_lengths(J)
    assert lengths.sum() == (~J).sum()
    assert (lengths > 0).all()


def test_a_seed_gives_a_hold_out():
    J = np.random.default_rng(0).random((4, 500)) < 0.6
    one, two, other = (draw_holdout(J, 0.1, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_scattered_gaps_give_scattered_hold_out_and_outages_give_outages():
    rng = np.random.default_rng(0)
    scattered = rng.random((6, 4000)) < 0.9
    outages = np.repeat(rng.random((6, 40)) < 0.9, 100, axis=1)
    longest = {}
    for name, J in (("scattered", scattered), ("outages", outages)):
        hidden = draw_holdout(J, 0.1, np.random.default_rng(1))
        assert 0.07 < hidden.sum() / J.sum() < 0.13
        longest[name] = gap_lengths(~hidden).max()
    assert longest["scattered"] < 12
    assert LONGEST <= longest["outages"] < 4 * LONGEST


def test_a_complete_table_can_be_held_out_too():
    hidden = draw_holdout(np.ones((3, 1000), bool), 0.1, np.random.default_rng(0))
    assert 0.05 < hidden.mean() < 0.15


def test_bins_are_closed_on_the_right():
    assert distance_bin(np.array(EDGES)).tolist() == list(range(len(EDGES)))
    assert distance_bin(np.array(EDGES) + 0.5).tolist() == list(range(1, len(EDGES) + 1))


def test_sites_that_fall_dark_together_are_held_out_together():
    rng = np.random.default_rng(0)
    slots = np.repeat(rng.random(40) < 0.8, 100)
    together = np.broadcast_to(slots, (6, 4000)).copy()
    apart = np.repeat(rng.random((6, 40)) < 0.8, 100, axis=1)
    shares = []
    for J in (together, apart):
        hidden = draw_holdout(J, 0.1, np.random.default_rng(1))
        alone = hidden & (hidden.sum(axis=0) <= 2)
        shares.append((hidden.sum() - alone.sum()) / hidden.sum())
    assert shares[0] > 0.4
    assert shares[1] < 0.1


def test_chance_does_not_make_a_site_dark():
    J = np.random.default_rng(0).random((4, 5000)) < 0.1
    assert silent_together(J)[1] < 0.01
