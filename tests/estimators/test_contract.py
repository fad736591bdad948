"""scikit-learn's contract for every method of this package; our own is in bench."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from flfl import PaperFLFL
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.estimators.interpolation import Interpolation
from flfl.methods import create
from quick import quick

OWN = ("flfl", "flfl-paper", "linear", "pchip", "mean")
"""Methods of this package; those of flfl-bench are checked there."""


@parametrize_with_checks([quick(name) for name in OWN])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def network():
    return synthesize(12, 200, rank=2, rng=np.random.default_rng(0))


def test_the_transform_of_other_slots_is_refused(network):
    table, _ = network
    model = Interpolation().fit(table.values)
    part = table.values.iloc[20:60]
    pd.testing.assert_frame_equal(model.transform(part), model.transform(table.values).iloc[20:60])
    with pytest.raises(InputError, match="not fitted"):
        model.transform(part.shift(freq="1000D"))
    twice = Interpolation().fit(table.values.set_axis([0] * len(table.values)))
    with pytest.raises(InputError, match="not fitted"):
        twice.transform(part.set_axis([0] * len(part)))
    with pytest.raises(InputError, match="not fitted"):
        Interpolation().fit(np.arange(6.0)[:, None]).transform(np.array([[1.0], [np.nan]]))


@pytest.mark.parametrize("unit", [1e-3, pytest.param(1e3, marks=pytest.mark.slow)])
def test_the_default_method_does_as_well_in_other_units(network, unit):
    table, sensors = network
    hidden = table.known & (np.random.default_rng(5).random(table.known.shape) < 0.2)
    truth = table.values.where(hidden)
    plain, scaled = (
        create("flfl", effort="quick")
        .fit(u * table.values.mask(hidden), sensors=sensors)
        .score(u * truth)
        / u
        for u in (1.0, unit)
    )
    assert scaled == pytest.approx(plain, rel=0.1)


def test_score_is_minus_the_error_on_what_was_hidden():
    X = np.array([[0.0], [np.nan], [2.0]])
    assert Interpolation().fit(X).score(np.array([[np.nan], [4.0], [np.nan]])) == -3.0


def test_linear_follows_the_clock_not_the_row_number():
    index = pd.to_datetime(["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 04:00"])
    frame = pd.DataFrame({"a": [0.0, np.nan, 4.0]}, index=index)
    assert Interpolation().fit_transform(frame).loc[index[1], "a"] == pytest.approx(1.0)


@pytest.mark.parametrize("schedule", ["prompt", "synchronous"])
def test_the_paper_method_does_not_care_how_regions_form_sites(network, schedule):
    table, sensors = network
    regions = [f"r{i % 4}" for i in range(12)]
    results = []
    for sites in (regions, ["all"] * 12, ["ab" if r in ("r0", "r1") else "cd" for r in regions]):
        described = sensors.with_sites(sites)
        described = type(sensors)(
            sensors.ids, sensors.coordinates, sensors.kind, tuple(regions), described.sites
        )
        model = PaperFLFL(rank=2, rounds=10, schedule=schedule)
        results.append(model.fit(table.values, sensors=described).estimates_)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_region_may_not_span_sites(network):
    table, sensors = network
    described = type(sensors)(
        sensors.ids, sensors.coordinates, sensors.kind, ("r",) * 12, ("a",) * 6 + ("b",) * 6
    )
    with pytest.raises(InputError, match="must not leave a site"):
        PaperFLFL().fit(table.values, sensors=described)


def test_a_rank_beyond_the_table_is_refused():
    with pytest.raises(InputError, match="rank 7 is larger"):
        PaperFLFL(rank=7).fit(np.random.default_rng(0).random((20, 3)))


@pytest.mark.parametrize(
    "bad", [{"rank": 0}, {"rule": "x"}, {"learning_rate": 0.0}, {"schedule": "late"}]
)
def test_bad_parameters_are_named(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))}: "):
        PaperFLFL(**bad).fit(np.random.default_rng(0).random((20, 3)))


def test_sites_by_sensor_name():
    X = pd.DataFrame(np.random.default_rng(0).random((30, 3)), columns=["a", "b", "c"])
    model = PaperFLFL(rank=1, rounds=5).fit(X, sites={"a": "n", "b": "s", "c": "n"})
    assert list(model.partition_.members) == ["n", "s"]
    with pytest.raises(InputError, match="no site is given for sensor 'c'"):
        PaperFLFL().fit(X, sites={"a": "n", "b": "s"})


@pytest.mark.parametrize(
    "sites",
    [
        [1, 1, 2],
        np.array([1, 1, 2]),
        pd.Series([1, 1, 2]),
        pd.Series([2, 1, 1], index=[30, 20, 10]),
        {10: 1, 20: 1, 30: 2},
    ],
)
def test_ids_and_sites_may_be_numbers(sites):
    X = pd.DataFrame(np.random.default_rng(0).random((30, 3)), columns=[10, 20, 30])
    places = pd.DataFrame({"sensor_id": [30, 10, 20], "x": [9.0, 1.0, 2.0], "y": 0.0})
    model = PaperFLFL(rank=1, rounds=5).fit(X, sensors=places, sites=sites)
    assert model.partition_.sites == ("1", "1", "2")


@pytest.mark.parametrize(
    ("sites", "words"),
    [
        (["n", None, "s"], "a site is missing"),
        ("owner", "is one text"),
        (["n"], "1 sites are given for 3 sensors"),
    ],
)
def test_bad_sites(sites, words):
    with pytest.raises(InputError, match=words):
        Interpolation().fit(np.random.default_rng(0).random((5, 3)), sites=sites)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("linear", {"rank": 3}, "method linear has no option rank. Leave it out"),
        ("flfl-paper", {"rnk": 3}, "flfl-paper has no option rnk. Its options are "),
        ("flfl", {"seed": -1}, "seed: -1 is no seed"),
        ("mean", {"seed": 1.5}, "seed: 1.5 is no seed"),
    ],
)
def test_options_that_a_method_does_not_have(name, options, words):
    with pytest.raises(InputError, match=words):
        create(name, **options)


def test_random_state_comes_before_the_seed():
    assert create("flfl-paper", seed=1, random_state=3).random_state == 3
    assert create("flfl-paper", seed=1).random_state == 1
