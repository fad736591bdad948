"""How far an owner trusts a better estimate: as its held-out readings show."""

import numpy as np
import pytest

from flfl.ensemble.choice import shares
from flfl.ensemble.plausible import plausible


def judged(base, better, truth, sensors=1, run=None):
    n = len(truth)
    at = np.arange(n) % sensors, np.zeros(n, int)
    return shares(base, better, truth, at, np.arange(n) if run is None else run, (sensors, 1))


@pytest.fixture
def readings():
    rng = np.random.default_rng(0)
    return rng.standard_normal(400), rng


def test_what_is_clearly_better_is_used_wholly(readings):
    truth, rng = readings
    better = truth + 0.3 * rng.standard_normal(len(truth))
    np.testing.assert_array_equal(judged(0 * truth, better, truth), 1.0)


def test_what_is_worse_is_not_used(readings):
    truth, rng = readings
    assert not judged(0 * truth, rng.standard_normal(len(truth)), truth).any()
    assert not judged(0 * truth, -truth, truth).any()


def test_chance_does_not_decide():
    rng = np.random.default_rng(1)
    found = [judged(np.zeros(8), *rng.standard_normal((2, 8)))[0, 0] for _ in range(500)]
    assert np.mean(found) < 0.06
    assert not judged(np.zeros(1), np.ones(1), np.ones(1)).any()
    assert not judged(np.zeros(2), np.ones(2), np.ones(2)).any()


def test_readings_of_one_run_count_as_one_draw(readings):
    truth, _ = readings
    assert judged(0 * truth[:30], truth[:30], truth[:30]).all()
    assert not judged(0 * truth[:30], truth[:30], truth[:30], run=np.zeros(30, int)).any()


def test_a_sensor_that_loses_is_left_out(readings):
    truth, rng = readings
    better = truth + 0.3 * rng.standard_normal(len(truth))
    better[::4] = -truth[::4]
    found = judged(0 * truth, better, truth, sensors=4)[:, 0]
    assert found[0] < 0.2
    assert (found[1:] > 0.9).all()


def test_nothing_to_choose_between():
    assert not judged(np.ones(5), np.ones(5), np.zeros(5)).any()
    assert not judged(*np.zeros((3, 0))).any()


def test_the_margin_is_what_history_has_shown():
    raw = np.concatenate([np.arange(10.0), np.arange(10.0), [14.0]])[None]
    known = np.ones(raw.shape, bool)
    low, high = plausible(raw, known, parts=3)[:, 0, 0]
    assert high == 14 + 5  # so far the last part went beyond the rest
    assert low == 0  # each part had come as low
    assert plausible(np.full((1, 9), 3.0), known[:, :9])[:, 0, 0].tolist() == [3.0, 3.0]
    known[:] = False
    assert plausible(raw, known)[:, 0, 0].tolist() == [0.0, 0.0]
    # One reading says nothing of a range.
    known[0, 3] = True
    assert plausible(raw, known)[:, 0, 0].tolist() == [3.0, 3.0]


def test_the_range_follows_the_unit():
    rng = np.random.default_rng(2)
    raw, known = rng.lognormal(size=(4, 300)), rng.random((4, 300)) < 0.5
    once = plausible(raw, known)
    np.testing.assert_allclose(plausible(1e6 * raw, known), 1e6 * once)
    np.testing.assert_allclose(plausible(-raw, known)[::-1], -once)
    assert (once[0, :, 0] <= np.where(known, raw, np.inf).min(axis=1)).all()
