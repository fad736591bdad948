"""A rank near the number of sensors gives their news away; a small one does not."""

import numpy as np
import pytest

from audit.real import masked
from audit.truth import spoken_news
from flfl.audit.attacks import components as attack
from flfl.estimators.dynamic import FLFL


def mixture(rank, M=8, N=1500, seed=0, heavy=True):
    """Sums of M news through a random projection of the given rank, with little noise."""
    rng = np.random.default_rng(seed)
    news = rng.laplace(size=(M, N)) if heavy else rng.standard_normal((M, N))
    mixing = rng.standard_normal((M, rank))
    g = news.T @ mixing
    return np.stack([g, g]), news


def test_as_many_numbers_as_sensors_give_them_away():
    sums, news = mixture(rank=8)
    found = attack.score(sums, news)
    assert found["last"].min() > 0.9
    assert found["all"].min() > 0.9


def test_a_small_rank_hides_them():
    sums, news = mixture(rank=2)
    assert np.median(attack.score(sums, news)["all"]) < 0.5


def test_gaussian_news_has_no_independent_directions():
    sums, news = mixture(rank=8, heavy=False)
    assert np.median(attack.score(sums, news)["last"]) < 0.8


def test_gaps_are_left_out_of_the_score():
    sums, news = mixture(rank=8)
    news[:, ::2] = np.nan
    assert attack.score(sums, news)["last"].min() > 0.9


@pytest.mark.slow
def test_beijing_with_the_guard_off():
    X, sensors = masked("D3_beijing_pm25", 0.5)
    sums = []

    def witness(ask, replies):
        if ask.kind in ("open", "round"):
            sums.append(replies.total["g"])

    model = FLFL(max_exposure=1, rank=33, effort="quick")
    model.witness = witness
    model.fit(X, sensors=sensors)
    found = attack.score(np.array(sums), spoken_news(model, X))
    assert (found["last"] > 0.8).sum() >= 25
