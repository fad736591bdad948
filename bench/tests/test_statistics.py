"""Statistics against answers that are known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from flfl_bench import paper
from flfl_bench.statistics import (
    compare,
    critical_difference,
    half_width,
    paired_scores,
    rank,
    rank_biserial,
    scores,
    wilcoxon,
)

PRINTED_RANKS = {
    "rfrec": 4.376, "fesog": 5.229, "fedmf": 3.883, "fedrec++": 2.813, "metamf": 3.688, "flfl": 1.0
}  # fmt: skip
"""The paper's mean ranks, as printed under its table."""


def table(**columns):
    """Cases x labels."""
    length = len(next(iter(columns.values())))
    index = pd.MultiIndex.from_tuples(
        [(f"D{n}", "random", 0.5) for n in range(length)], names=["data", "pattern", "rate"]
    )
    return pd.DataFrame(columns, index=index, dtype=float)


def test_seeds_are_averaged_and_a_failure_is_worse_than_anything():
    rows = pd.DataFrame(
        {
            "data": "D",
            "pattern": "random",
            "rate": [0.1, 0.1, 0.1, 0.5, 0.5, 0.1],
            "seed": [0, 1, 0, 0, 0, 1],
            "label": ["a", "a", "b", "a", "b", "b"],
            "mae": [1.0, 2.0, 9.0, 4.0, 5.0, np.nan],
            "failed": [None] * 5 + ["ran away"],
        }
    )
    found = scores(rows)
    assert list(found.columns) == ["a", "b"]
    assert found["a"].tolist() == [1.5, 4.0]
    assert found["b"].tolist() == [np.inf, 5.0]


def test_methods_are_compared_on_masks_that_all_had():
    def rows(rate, label, seeds):
        # The second mask is harder for everybody.
        return [
            {"data": "D", "pattern": "random", "rate": rate, "label": label, "seed": seed,
             "mae": 1.0 + 9.0 * seed, "failed": None}
            for seed in seeds
        ]  # fmt: skip

    asked = [(0.1, "a", [0, 1]), (0.1, "b", [0]), (0.5, "a", [0]), (0.5, "b", [1])]
    found = paired_scores(pd.DataFrame([row for one in asked for row in rows(*one)]))
    assert found.loc[("D", "random", 0.1)].tolist() == [1.0, 1.0]
    assert found.loc[("D", "random", 0.5)].tolist() == [1.0, 10.0]


def test_wins_effect_and_change():
    (one,) = compare(table(ours=[1, 1, 4, 2], theirs=[2, 4, 2, 2]), "ours")
    assert (one.label, one.wins, one.losses, one.ties) == ("theirs", 2, 1, 1)
    # Ratios 2, 4, 1/2, 1: ranks of their logarithms 1.5, 3, 1.5; (1.5 + 3 - 1.5) / 6.
    assert one.rank_biserial == pytest.approx(1 / 2)
    assert (one.data_wins, one.data_losses) == (2, 1)
    assert one.relative == pytest.approx(np.median([-0.5, -0.75, 1.0, 0.0]))
    assert one.p_value == stats.wilcoxon(np.log([2, 4, 1 / 2])).pvalue == one.holm


def test_no_data_set_counts_more_for_its_units():
    ours, theirs = np.array([1.0, 1.2, 1.0, 0.8, 1.1]), np.array([1.3, 1.1, 1.4, 1.0, 1.0])
    units = np.array([1e-3, 1.0, 1e6, 50.0, 1e3])
    plain, scaled = (
        compare(table(ours=ours * by, theirs=theirs * by), "ours")[0] for by in (1.0, units)
    )
    assert plain.p_value == pytest.approx(scaled.p_value)
    assert plain.rank_biserial == pytest.approx(scaled.rank_biserial)


def test_a_data_set_is_won_by_its_cases_together():
    cases = table(ours=[1, 1, 3], theirs=[4, 0.5, 2])
    cases.index = pd.MultiIndex.from_tuples(
        [("D", "random", 0.1), ("D", "random", 0.5), ("E", "random", 0.5)], names=cases.index.names
    )
    (one,) = compare(cases, "ours")
    assert (one.wins, one.losses, one.data_wins, one.data_losses) == (1, 2, 1, 1)


def test_only_cases_that_both_have_count_and_a_failure_is_a_loss():
    (one,) = compare(table(ours=[1, 1, np.nan], theirs=[np.inf, np.nan, 1]), "ours")
    assert (one.wins, one.losses) == (1, 0)
    (one,) = compare(table(ours=[np.inf, 1], theirs=[1, np.inf]), "ours")
    assert (one.wins, one.losses) == (1, 1)


def test_the_signed_rank_test_is_scipys():
    rng = np.random.default_rng(0)
    for size in (6, 20, 80):
        difference = rng.standard_normal(size) + 0.3
        assert wilcoxon(difference) == stats.wilcoxon(difference).pvalue
    assert wilcoxon(np.zeros(5)) == 1.0
    assert rank_biserial(np.zeros(5)) == 0.0


def test_holm_never_lets_a_larger_p_pass_a_smaller_one():
    rng = np.random.default_rng(1)
    others = {name: 2 + rng.random(12) - 0.5 * shift for shift, name in enumerate("abcd")}
    found = compare(table(ours=1 + rng.random(12), **others), "ours")
    # Holm (1979): sorted p times 4, 3, 2, 1, made monotone.
    p = np.sort([one.p_value for one in found])
    expected = np.minimum(np.maximum.accumulate(p * [4, 3, 2, 1]), 1)
    assert sorted(one.holm for one in found) == pytest.approx(expected)
    assert compare(table(ours=[1, 2]), "ours") == []


def test_the_critical_difference_is_where_nemenyis_p_is_five_percent():
    rng = np.random.default_rng(2)
    found = rank(table(**{name: rng.random(9) + shift for shift, name in enumerate("abcde")}))
    for one, value in found.ranks.items():
        for other, another in found.ranks.items():
            close = abs(value - another) <= found.critical_difference
            assert close == (found.nemenyi.loc[one, other] >= 0.05)


def test_mean_ranks_and_friedman():
    found = rank(table(a=[1, 1, 1, 1], b=[2, 3, 2, 2], c=[3, 2, 3, np.inf], d=[4, 4, 4, 3]))
    assert found.ranks == {"a": 1.0, "b": 2.25, "c": 3.0, "d": 3.75}
    assert found.cases == 4
    # 12 N / (k (k + 1)) * (sum R^2 - k (k + 1)^2 / 4), chi-squared with k - 1 degrees.
    ranks = np.array(list(found.ranks.values()))
    statistic = 12 * 4 / 20 * ((ranks**2).sum() - 25)
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, 3))


def test_ranks_need_common_cases():
    assert rank(table(a=[1, 2], b=[2, 1])) is None
    assert rank(table(a=[1, np.nan], b=[2, 1], c=[3, 3])) is None
    alike = rank(table(a=[1, 2], b=[1, 2], c=[1, 2]))
    assert alike.p_value == 1.0


@pytest.mark.parametrize(
    ("methods", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164), (20, 3.544)]
)
def test_the_critical_difference_has_the_tabled_q(methods, q):
    expected = q * np.sqrt(methods * (methods + 1) / (6 * 30))
    assert critical_difference(methods, 30) == pytest.approx(expected, abs=2e-3)


def test_the_interval_of_a_mean():
    values = [3.0, 4.0, 8.0, 1.0, 2.0]
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)
    assert half_width([1.0, 3.0]) == pytest.approx(12.706, abs=1e-3)
    assert np.isnan(half_width([1.0]))


def test_what_is_said_about_the_papers_statistics_follows_from_its_table():
    wide = paper.values().melt(["data", "rate", "method"], ["mae", "rmse"])
    both = wide.pivot(index=["data", "rate", "variable"], columns="method", values="value")
    ranks = both.rank(axis=1).mean()
    assert ranks["fedmf"] == pytest.approx(3.833, abs=1e-3)
    assert ranks["rfrec"] == pytest.approx(4.438, abs=1e-3)
    for name in ("fesog", "fedrec++", "metamf", "flfl"):
        assert ranks[name] == pytest.approx(PRINTED_RANKS[name], abs=1e-3)
    for name in ranks.index.drop("flfl"):
        assert (both["flfl"] < both[name]).all()
    assert len(both) == 24
    assert wilcoxon(np.ones(12) * np.arange(1, 13)) == pytest.approx(0.0005, abs=2e-5)
    assert stats.wilcoxon(np.arange(1, 25), method="asymptotic").pvalue == pytest.approx(
        0.00002, abs=5e-6
    )
