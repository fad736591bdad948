"""Laws of the hold-out: it imitates the gaps and leaves every sensor something."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from flfl.constants import HELD_OUT_IN_ALL, MOST_DRAWS
from flfl.constants import LONGEST_HELD_OUT_HOURS as LONGEST
from flfl.ensemble.holdout import draw_holdout, draw_holdouts, runs

masks = arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=30))


@given(masks, st.floats(0, 0.9), st.integers(0, 100))
def test_only_known_entries_are_hidden_and_two_are_left(J, share, seed):
    hidden = draw_holdout(J, np.random.default_rng(seed), share=share)
    assert not (hidden & ~J).any()
    left = (J & ~hidden).sum(axis=1)
    assert ((left >= 2) | ~hidden.any(axis=1)).all()


@given(masks)
def test_runs_are_all_of_a_mask_and_apart(J):
    again = np.zeros_like(J)
    for row, start, end in zip(*runs(J), strict=True):
        assert start < end
        assert not again[row, max(start - 1, 0) : end].any()
        again[row, start:end] = True
    np.testing.assert_array_equal(again, J)


def test_a_seed_gives_a_hold_out():
    J = np.random.default_rng(0).random((4, 500)) < 0.6
    one, two, other = (draw_holdout(J, np.random.default_rng(s), share=0.1) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_scattered_gaps_give_scattered_hold_out_and_outages_give_outages():
    rng = np.random.default_rng(0)
    scattered = rng.random((6, 4000)) < 0.9
    outages = np.repeat(rng.random((6, 40)) < 0.9, 100, axis=1)
    longest = {}
    for name, J in (("scattered", scattered), ("outages", outages)):
        hidden = draw_holdout(J, np.random.default_rng(1), share=0.1)
        assert 0.07 < hidden.sum() / J.sum() < 0.13
        _, starts, ends = runs(hidden)
        longest[name] = (ends - starts).max()
    assert longest["scattered"] < 12
    assert LONGEST <= longest["outages"] < 4 * LONGEST


def test_a_complete_table_can_be_held_out_too():
    hidden = draw_holdout(np.ones((3, 1000), bool), np.random.default_rng(0), share=0.1)
    assert 0.05 < hidden.mean() < 0.15


def test_runs_are_as_long_in_time_whatever_the_step():
    J = np.repeat(np.random.default_rng(0).random((6, 400)) < 0.9, 100, axis=1)
    longest = []
    for per_hour in (1.0, 6.0):
        _, starts, ends = runs(draw_holdout(J, np.random.default_rng(1), per_hour=per_hour))
        longest.append((ends - starts).max())
    assert longest[1] > 1.5 * longest[0]


def test_an_owner_with_few_readings_holds_out_a_larger_share():
    rng = np.random.default_rng(0)
    few, many = (draw_holdout(np.ones((1, n), bool), rng).mean() for n in (2000, 200_000))
    assert 0.1 < few < 0.2
    assert 0.03 < many < 0.07


def test_sites_that_fall_silent_together_are_held_out_together():
    rng = np.random.default_rng(0)
    slots = np.repeat(rng.random(40) < 0.8, 100)
    together = np.broadcast_to(slots, (6, 4000)).copy()
    apart = np.repeat(rng.random((6, 40)) < 0.8, 100, axis=1)
    shares = []
    for J in (together, apart):
        hidden = draw_holdout(J, np.random.default_rng(1), share=0.1)
        alone = hidden & (hidden.sum(axis=0) <= 2)
        shares.append((hidden.sum() - alone.sum()) / hidden.sum())
    assert shares[0] > 0.4
    assert shares[1] < 0.1


def test_chance_does_not_make_a_site_silent():
    J = np.random.default_rng(0).random((4, 5000)) < 0.1
    hidden = draw_holdout(J, np.random.default_rng(1), share=0.1)
    assert (hidden.sum(axis=0) == 4).sum() < 3


@given(masks, st.integers(0, 100), st.sampled_from([1.0, 6.0]))
def test_draws_are_hold_outs_one_after_the_other(J, seed, per_hour):
    rng, again = np.random.default_rng(seed), np.random.default_rng(seed)
    held = draw_holdouts(J, rng, per_hour=per_hour)
    assert 1 <= len(held) <= MOST_DRAWS
    for one in held:
        np.testing.assert_array_equal(one, draw_holdout(J, again, per_hour=per_hour))


def test_an_owner_draws_again_until_it_has_enough_to_judge_by():
    draws = []
    for N in (1000, 1500, 4000, 20_000):
        J = np.random.default_rng(0).random((2, N)) < 0.5
        held = draw_holdouts(J, np.random.default_rng(1))
        n, D = held[0].sum(), len(held)
        assert D == MOST_DRAWS or n * D >= HELD_OUT_IN_ALL > n * (D - 1)
        draws.append(D)
    assert draws[0] == MOST_DRAWS > draws[1] > draws[2] == draws[3] == 1


def test_a_short_table_is_not_drawn_from_again_and_again():
    draws = []
    for readings in (10, 99, 100, 250, 350, 600):
        J = np.ones((1, readings + 1), bool)
        J[0, 5] = False
        draws.append(len(draw_holdouts(J, np.random.default_rng(1))))
    assert draws == [1, 1, 2, 3, 4, 4]


def test_draws_differ():
    J = np.random.default_rng(0).random((2, 1000)) < 0.5
    held = draw_holdouts(J, np.random.default_rng(1))
    assert len(np.unique(held.reshape(len(held), -1), axis=0)) == len(held) == MOST_DRAWS
    assert held.any(axis=0).sum() > 2 * held[0].sum()
