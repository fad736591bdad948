"""Frames of every kind go in, and the same kind comes back."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import cross_val_score

from flfl import FLFL, load, recover
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.evaluation import evaluate
from flfl.methods import find

TIMES = pd.date_range("2024-01-01", periods=60, freq="h", name="time")


def wide():
    t = np.arange(60.0)
    frame = pd.DataFrame({name: np.sin(t / 7 + i) for i, name in enumerate("abc")}, TIMES)
    frame.iloc[10:13, 0] = frame.iloc[20, 1] = np.nan
    return frame


EXPECTED = wide().interpolate().to_numpy()


def long():
    return wide().reset_index().melt("time", var_name="station", value_name="value").dropna()


class TestPolars:
    @pytest.fixture
    def polars(self):
        return pytest.importorskip("polars")

    def test_wide(self, polars):
        given = polars.from_pandas(wide().reset_index())
        result = recover(given, method="linear")
        for part in (result.values, result.flags, result.lower, result.upper, result.reasons):
            assert isinstance(part, polars.DataFrame)
            assert part.columns == ["time", "a", "b", "c"]
            assert part["time"].equals(given["time"])
        np.testing.assert_allclose(result.values.drop("time").to_numpy(), EXPECTED, rtol=2e-3)
        assert result.flags["a"][11] == "recovered"
        assert result.count("recovered") == 4
        assert result.summary()["slots"] == 60

    def test_missing_is_null_and_stays_so_where_refused(self, polars):
        given = polars.from_pandas(wide().reset_index())
        result = recover(given, method="linear", max_gap=2)
        assert result.values["a"][11] is None

    def test_long_and_lazy(self, polars):
        given = polars.from_pandas(long())
        for one in (given, given.lazy()):
            result = recover(one, method="linear")
            assert isinstance(result.values, polars.DataFrame)
            assert set(result.values.columns) == {"time", "a", "b", "c"}

    def test_it_can_be_saved_and_shown(self, polars, tmp_path):
        result = recover(polars.from_pandas(wide().reset_index()), method="linear")
        result.save(tmp_path / "filled.csv", tmp_path / "flags.csv")
        assert pd.read_csv(tmp_path / "filled.csv").shape == (60, 4)
        assert "60 slots" in repr(result)

    def test_the_estimator(self, polars):
        given = polars.from_pandas(wide().reset_index())
        filled = FLFL(effort="quick").fit(given).transform(given)
        assert isinstance(filled, polars.DataFrame)
        assert filled.columns == given.columns
        assert filled["a"].null_count() == 0


@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist])
def test_an_array(kind, tmp_path):
    result = recover(kind(wide().to_numpy()), method="linear", max_gap=2)
    for name in ("values", "flags", "reasons", "methods", "lower", "upper"):
        part, plain = getattr(result, name), getattr(result.plain, name)
        assert isinstance(part, np.ndarray)
        np.testing.assert_array_equal(part, plain.to_numpy())
    filled = result.flags == "recovered"
    assert filled.sum() == result.count("recovered") == 1
    np.testing.assert_allclose(result.values[filled], EXPECTED[filled], rtol=2e-3)
    assert (result.lower[filled] < result.upper[filled]).all()
    assert np.isnan(result.values[10:13, 0]).all()
    assert (result.reasons[10:13, 0] != "").all()
    assert "60 slots" in repr(result)
    result.save(tmp_path / "filled.csv", tmp_path / "flags.csv")
    assert pd.read_csv(tmp_path / "filled.csv").shape == (60, 4)
    result.save(tmp_path / "whole.zip")
    np.testing.assert_array_equal(load(tmp_path / "whole.zip").values.to_numpy(), result.values)
    assert result.to_xarray()["value"].shape == result.values.shape
    assert len(result.to_long()) == result.values.size


def test_an_arrow_table():
    pa = pytest.importorskip("pyarrow")
    result = recover(pa.Table.from_pandas(wide().reset_index()), method="linear")
    assert isinstance(result.values, pa.Table)
    assert result.values.column_names == ["time", "a", "b", "c"]


@pytest.mark.parametrize("turned", [False, True])
def test_xarray(turned):
    xarray = pytest.importorskip("xarray")
    given = xarray.DataArray(
        wide().to_numpy(), {"time": TIMES.to_numpy(), "sensor": list("abc")}, ("time", "sensor")
    )
    given = given.T if turned else given
    result = recover(given, method="linear")
    assert isinstance(result.values, xarray.DataArray)
    assert result.values.dims == given.dims
    filled = result.values.transpose("time", "sensor").to_numpy()
    np.testing.assert_allclose(filled, EXPECTED, rtol=2e-3)


def test_a_long_frame_of_pandas():
    result = recover(long(), method="linear")
    assert list(result.values.columns) == ["a", "b", "c"]
    np.testing.assert_allclose(result.values.to_numpy(), EXPECTED, rtol=2e-3)


def test_a_path_and_how_to_read_it(tmp_path):
    path = tmp_path / "a.csv"
    wide().fillna(-77).to_csv(path)
    result = recover(str(path), method="linear", reading={"missing": [-77]})
    assert result.count("recovered") == 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "None is no table"),
        (3, "an int"),
        ({1, 2}, "a set"),
        (np.zeros(4), "1 dimensions"),
        ([["x", "y"]], "other than numbers"),
    ],
)
def test_what_is_no_table(given, words):
    with pytest.raises(InputError, match=words):
        recover(given)


@pytest.mark.parametrize("rule", [{"step": "2h"}, {"duplicates": "mean"}, {"complete_grid": True}])
@pytest.mark.parametrize("kind", ["pandas", "polars", "xarray"])
def test_rows_that_were_merged_or_inserted(kind, rule):
    frame = wide()
    if "duplicates" in rule:
        frame = pd.concat([frame, frame.iloc[:2]])
    elif "complete_grid" in rule:
        frame = frame.drop(frame.index[30])
    given = frame
    if kind == "polars":
        given = pytest.importorskip("polars").from_pandas(frame.reset_index())
    elif kind == "xarray":
        given = pytest.importorskip("xarray").DataArray(frame.rename_axis(columns="s"))
    slots = 30 if "step" in rule else 60
    values = recover(given, method="linear", reading=rule, verbose=0).values
    assert len(values) == slots
    if kind == "polars":
        assert values["time"].to_list() == list(TIMES[:: 60 // slots])
    else:
        times = values.index if kind == "pandas" else values["time"].to_index()
        assert list(times) == list(TIMES[:: 60 // slots])


@pytest.mark.parametrize("kind", ["pandas", "array", "polars"])
def test_codes_are_missing_in_the_estimator_too(kind):
    frame = wide()
    frame.iloc[40:43, 1], frame.iloc[7, 0] = np.nan, np.nan
    coded = frame.copy()
    coded.iloc[40:43, 1], coded.iloc[7, 0] = -999.0, -9999.0
    if kind == "polars":
        polars = pytest.importorskip("polars")
        coded = polars.from_pandas(coded.rename_axis("time").reset_index())
    elif kind == "array":
        coded = coded.to_numpy()
    with pytest.warns(UserWarning, match=r"1 of -9999, 3 of -999; missing=\(\) keeps them"):
        model = FLFL(effort="quick").fit(coded)
    wanted = FLFL(effort="quick").fit(frame if kind != "array" else frame.to_numpy())
    np.testing.assert_array_equal(model.estimates_, wanted.estimates_)
    filled = model.transform(coded)
    filled = filled.to_pandas().set_index("time") if kind == "polars" else filled
    assert (np.asarray(filled) > -900).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = FLFL(effort="quick", missing=()).fit(coded)
    assert kept.fitted_[7, 0] == -9999


def test_a_table_that_was_read_keeps_what_its_reader_kept():
    """``missing=()`` of the reading reaches the method, also by its name."""
    frame = wide() * 0 - 999.0 + np.arange(len(wide()))[:, None] % 3
    frame.iloc[10, 1] = np.nan
    result = recover(frame, reading={"missing": ()}, effort="quick", verbose=0)
    assert (result.flags.iloc[:10] == "observed").all().all()


def test_cross_validation_says_why_not():
    values = wide().to_numpy()
    for table in (wide(), values):
        with pytest.raises(InputError, match="cross_val_score"):
            cross_val_score(FLFL(effort="quick"), table, cv=2, error_score="raise")


class Halves(BaseRecoverer):
    """Half of each sensor's mean: a bad method, but one's own."""

    def __init__(self, share=0.5):
        self.share = share

    def _estimate(self, Y, positions, sensors):
        return np.broadcast_to(self.share * np.nanmean(Y, axis=1, keepdims=True), Y.shape).copy()


class TestMethodsOfOnesOwn:
    @pytest.mark.parametrize("method", [Halves, Halves(0.5)])
    def test_a_class_or_an_object(self, method, tmp_path):
        result = recover(wide(), method=method)
        assert result.method == "Halves"
        assert result.values.iloc[11, 0] == pytest.approx(0.5 * wide()["a"].mean())
        assert set(result.scores) == {"Halves", "alone", "linear"}
        pytest.importorskip("bokeh")
        result.to_html(tmp_path / "page.html")

    def test_options_and_parameters(self):
        assert recover(wide(), method=Halves, options={"share": 0.0}).values.iloc[11, 0] == 0
        assert recover(wide(), method=Halves(0.0)).values.iloc[11, 0] == 0

    def test_any_imputer(self):
        result = recover(wide(), method=KNNImputer(n_neighbors=2))
        expected = KNNImputer(n_neighbors=2).fit_transform(wide())
        np.testing.assert_array_equal(result.values, expected)
        assert recover(wide(), method=SimpleImputer).method == "SimpleImputer"

    def test_they_are_evaluated_beside_others(self):
        table, sensors = synthesize(5, 120, rank=2, rng=np.random.default_rng(0))
        rows = evaluate(table, sensors, rates=[0.5], methods=["linear", Halves(), KNNImputer()])
        assert [row.method for row in rows] == ["linear", "Halves", "KNNImputer"]
        assert all(np.isfinite(row.mae) for row in rows)

    @pytest.mark.parametrize("thing", [3, object(), str])
    def test_what_is_no_method(self, thing):
        with pytest.raises(InputError, match="no method"):
            find(thing)


class TestMoreKinds:
    """What people have at hand besides; each is the same table."""

    TIMES = pd.date_range("2024-01-01", periods=60, freq="h", name="time")

    @property
    def wide(self):
        t = np.arange(60) / 5
        frame = pd.DataFrame({"a": np.sin(t) + 5, "b": np.cos(t) + 5}, self.TIMES).round(3)
        frame.iloc[20:24, 0] = np.nan
        return frame

    def check(self, given):
        wanted = recover(self.wide, method="linear", verbose=0).values
        got = recover(given, method="linear", verbose=0).values
        np.testing.assert_array_equal(got[["a", "b"]].to_numpy(), wanted.to_numpy())

    def test_levels_of_an_index(self):
        long = self.wide.rename_axis(columns="sensor").stack(future_stack=True)
        self.check(long)
        self.check(long.to_frame("pm10"))

    def test_dicts(self):
        rows = self.wide.reset_index()
        self.check(rows.to_dict("records"))
        self.check(rows.to_dict("list"))
        with pytest.raises(InputError, match="no table"):
            recover({"time": [1, 2], "a": [1]}, method="linear", verbose=0)

    def test_a_series(self):
        got = recover(self.wide["a"], method="linear", verbose=0).values
        assert list(got.columns) == ["a"]
        assert got.notna().all().all()

    def test_a_dataset(self):
        xr = pytest.importorskip("xarray")
        array = xr.DataArray(self.wide.rename_axis(columns="sensor"), name="pm10")
        got = recover(array.to_dataset(), method="linear", verbose=0).values
        assert got.sizes == {"time": 60, "sensor": 2}
        assert bool(got.notnull().all())
        two = xr.Dataset({"pm10": array, "no2": array})
        with pytest.raises(InputError, match=r"pm10, no2.*readings\['pm10'\]"):
            recover(two, method="linear", verbose=0)
