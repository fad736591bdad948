"""Laws of the windows: they cover time and obey the counting rule everywhere."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flfl.model.shared.windows import Windows, cut, numbers_per_reading

counts_of = arrays(float, st.integers(1, 60), elements=st.integers(0, 12).map(float))


@given(counts_of, st.integers(1, 12), st.floats(0.02, 1.0), st.integers(1, 12))
def test_cut_obeys_the_counting_rule(counts, rank, allowed, least):
    least = min(least, rank)
    windows = cut(counts, rank, allowed, least)
    assert windows.edges[0] == 0
    assert windows.edges[-1] == windows.n_slots == len(counts)
    assert (np.diff(windows.edges) > 0).all()
    assert len(windows) == len(windows.edges) - 1
    assert ((windows.released >= 0) & (windows.released <= rank)).all()
    assert (numbers_per_reading(counts, windows) <= allowed + 1e-9).all()
    if counts.sum() * allowed >= least:
        assert (windows.released >= least).all()
    else:
        assert len(windows) == 1


@given(counts_of, st.integers(1, 12))
def test_a_trusted_coordinator_hears_every_slot(counts, rank):
    windows = cut(counts, rank, np.inf)
    np.testing.assert_array_equal(windows.edges, np.arange(len(counts) + 1))
    assert (windows.released == rank).all()


@given(counts_of, st.floats(0.05, 0.5))
def test_means_keep_the_sum(counts, allowed):
    windows = cut(counts, 5, allowed)
    X = np.stack([counts, np.arange(len(counts))])
    mean = windows.mean(X)
    np.testing.assert_allclose((mean * windows.lengths).sum(axis=1), X.sum(axis=1))
    np.testing.assert_allclose(windows.mean(windows.per_slot(mean.T).T), mean)


@given(counts_of, st.floats(0.05, 0.5))
def test_more_readings_never_mean_fewer_numbers(counts, allowed):
    fewer, more = (cut(c, 50, allowed).released.sum() for c in (counts, 3 * counts))
    assert more >= fewer


def test_slots_that_nobody_observed_are_swallowed():
    assert cut(np.array([9.0, 0, 0, 0, 9]), 3, 0.4).edges.tolist() == [0, 1, 5]


def test_rate_counts_readings_not_slots():
    windows = Windows(np.array([0, 3, 4]), np.array([2, 0]))
    rates = numbers_per_reading(np.array([1.0, 0.0, 4.0, 0.0]), windows)
    np.testing.assert_allclose(rates, [0.4, 0.0])
