"""``recover``: the caller's own table back, filled; honest scores, added error and traffic."""

import numpy as np
import pandas as pd
import pytest

from flfl import recover
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.estimators.owners import partition
from flfl.io.write import write_sensors
from flfl.methods import create

FEW = {"method": "flfl-paper", "rounds": 5, "rank": 2}


@pytest.fixture(scope="module")
def network():
    return synthesize(10, 200, rank=2, rng=np.random.default_rng(0))


def gappy(index=None, columns=None):
    t = np.arange(60.0)
    values = np.column_stack([np.sin(t / 7 + i) for i in range(3)])
    values[10:13, 0] = values[20, 1] = np.nan
    return pd.DataFrame(values, index=index, columns=columns)


SHAPES = {
    "numbered columns": gappy(columns=[7, 8, 9]),
    "row count": gappy(),
    "whole numbers": gappy(index=range(100, 160)),
    "time zone": gappy(index=pd.date_range("2024-03-30", periods=60, freq="h", tz="Europe/Berlin")),
    "periods": gappy(index=pd.period_range("2020-01", periods=60, freq="M")),
    "texts": gappy(index=[f"2024-01-01 {i // 60:02d}:{i % 60:02d}" for i in range(60)]),
    "not sorted": gappy(index=pd.date_range("2024-01-01", periods=60)).sample(
        frac=1, random_state=0
    ),
    "named axes": gappy(columns=list("abc")).rename_axis(index="hour", columns="station"),
    "levels": gappy(columns=pd.MultiIndex.from_tuples([("n", 1), ("n", 2), ("s", 1)])),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_callers_own_table_comes_back(shape):
    frame = SHAPES[shape]
    before = frame.copy()
    result = recover(frame, method="linear")
    pd.testing.assert_frame_equal(frame, before)
    for part in (result.values, result.flags, result.reasons, result.lower, result.upper):
        pd.testing.assert_index_equal(part.index, frame.index)
        pd.testing.assert_index_equal(part.columns, frame.columns)
    pd.testing.assert_index_equal(result.added_error.index, frame.columns)
    assert len(result.by_sensor) == len(frame.columns)
    known = frame.notna()
    pd.testing.assert_frame_equal(result.values[known], frame)
    pd.testing.assert_frame_equal(result.flags == "observed", known)
    filled = frame.fillna(result.values)
    pd.testing.assert_frame_equal(filled, result.values)
    order = np.arange(60) if shape != "not sorted" else np.argsort(np.argsort(frame.index))
    np.testing.assert_allclose(filled, gappy().interpolate().to_numpy()[order], rtol=2e-3)


def test_a_time_column_is_left_out_and_the_rows_still_match():
    frame = gappy(columns=list("abc"))
    frame.insert(0, "time", pd.date_range("2024-01-01", periods=60).astype(str))
    filled = frame.fillna(recover(frame, method="linear").values)
    assert filled.notna().all().all()
    assert filled["time"].equals(frame["time"])


def test_an_array_has_row_and_column_numbers_inside():
    result = recover(gappy().to_numpy(), method="linear").plain
    assert result.values.loc[11, 0] == pytest.approx(gappy().interpolate().loc[11, 0])


def test_minus_999_is_missing_as_in_a_file_and_may_be_a_reading():
    frame = gappy()
    frame.iloc[3, 2] = -999.0
    result = recover(frame, method="linear")
    assert result.flags.iloc[3, 2] == "recovered"
    assert "1 value equal to -999 read as missing." in result.notes
    result = recover(frame, method="linear", reading={"missing": ()})
    assert result.values.iloc[3, 2] == -999.0
    assert result.flags.iloc[3, 2] == "observed"


def test_the_ledger_counts_a_self_test_that_is_a_run_of_its_own(network):
    table, sensors = network
    alone = recover(table, sensors, self_test=False, **FEW)
    both = recover(table, sensors, **FEW)
    assert both.traffic.rounds == alone.traffic.rounds
    assert both.traffic.bytes_up > 1.8 * alone.traffic.bytes_up
    assert both.traffic.bytes_down > 1.8 * alone.traffic.bytes_down
    assert both.traffic.messages_up.total() > 1.8 * alone.traffic.messages_up.total()
    assert both.traffic.numbers > 1.8 * alone.traffic.numbers
    assert "counts both" in " ".join(both.summary()["notes"])


def test_sites_are_those_that_took_part(network):
    table, sensors = network
    result = recover(table, sensors, n_regions=3, self_test=False, **FEW)
    assert len(set(result.sites)) == result.summary()["sites"] == 3
    assert len(set(partition(sensors).sites)) != 3


def test_a_sensor_without_readings_has_no_site_but_its_owner(network):
    table, sensors = network
    values = table.values.assign(**{table.sensor_ids[4]: np.nan})
    result = recover(values, sensors, self_test=False, **FEW)
    assert result.sites[4] == ""
    assert "" not in result.sites[:4]
    owners = [f"o{i}" for i in range(10)]
    assert recover(values, sites=owners, self_test=False, **FEW).sites == tuple(owners)


def test_the_added_error_is_in_the_units_of_the_readings(network):
    table, sensors = network
    values = table.values.assign(**{table.sensor_ids[4]: np.nan})
    given = {"sites": "each", "effort": "quick", "self_test": False, "transformation": "none"}
    given["secure"] = False
    half, two = (recover(values, sensors, added_error=x, **given) for x in (0.5, "2 ug/m3"))
    assert np.isnan(half.added_error.iloc[4])
    assert (half.added_error.dropna() > 0).all()
    np.testing.assert_allclose(two.added_error.dropna(), 2.0, rtol=0.1)
    assert two.summary()["added_error"]["median"] == two.added_error.median()
    first = two.summary()["guarantee"][0]
    assert (first["readings"], round(first["told_apart"], 2)) == (1, 0.69)
    for method in ("linear", "alone", "pooled"):
        quick = {} if method == "linear" else {"effort": "quick"}
        without = recover(values, sensors, method=method, self_test=False, **quick)
        assert without.added_error.isna().all()
        assert without.summary()["guarantee"] == []


def test_each_sensor_may_be_its_own_owner(network):
    table, sensors = network
    result = recover(table, sensors, sites="each", self_test=False, **FEW)
    assert result.sites == table.sensor_ids


def test_an_option_that_the_method_has_not_is_refused(network):
    with pytest.raises(InputError, match="no option max_exposure"):
        recover(*network, options={"max_exposure": 0.5})


class TestPublished:
    OPTIONS = {  # noqa: RUF012
        "sites": "each", "effort": "quick", "self_test": False, "added_error": 1.0, "secure": False
    }  # fmt: skip

    def test_it_holds_no_reading_and_its_gaps_follow_the_network(self, network):
        table, sensors = network
        hidden = np.zeros(table.values.shape, bool)
        hidden[60:80, 2] = hidden[120:140, 7] = True
        result = recover(table.values.mask(hidden), sensors, **self.OPTIONS)
        shown = result.published
        pd.testing.assert_index_equal(shown.index, table.values.index)
        pd.testing.assert_index_equal(shown.columns, table.values.columns)
        assert shown.notna().all().all()
        off = (shown - table.values).to_numpy()[table.known & ~hidden]
        assert (off != 0).mean() > 0.99
        assert np.median(np.abs(off)) == pytest.approx(0.67 * result.added_error.median(), rel=0.3)
        truth = table.values.where(hidden)
        spread = float(np.nanstd(truth))
        assert float(np.nanmean(np.abs(shown - truth))) < 0.5 * spread

    def test_what_is_refused_stays_empty_and_limits_hold(self, network):
        table, sensors = network
        result = recover(table, sensors, max_gap=3, bounds=(45.0, 55.0), **self.OPTIONS)
        refused = (result.flags == "refused").to_numpy()
        assert refused.any()
        assert result.published.isna().to_numpy()[refused].all()
        assert float(result.published.min().min()) >= 45.0
        assert float(result.published.max().max()) <= 55.0

    def test_there_is_none_where_nothing_left(self, network):
        table, sensors = network
        assert (
            recover(table, sensors, method="alone", effort="quick", self_test=False).published
            is None
        )

    def test_copies_without_noise_are_readings_and_not_published(self, network):
        assert recover(*network, **self.OPTIONS | {"added_error": 0}).published is None


def test_random_state_is_not_overridden(network):
    table, sensors = network
    (third, same, other) = (
        recover(table, sensors, self_test=False, **FEW, **seed).values
        for seed in ({"options": {"random_state": 3}}, {"seed": 3}, {"seed": 0})
    )
    pd.testing.assert_frame_equal(third, same)
    assert not third.equals(other)
    with pytest.raises(InputError, match="seed"):
        recover(table, sensors, seed=-1)


def test_gains_by_sensor_come_from_the_hold_out(network):
    table, sensors = network
    result = recover(table, sensors, sites="each", effort="quick", secure=False)
    model = create("flfl", effort="quick", secure=False)
    model.fit(table.values, sensors=sensors, sites="each")
    hidden = ~np.isnan(model.holdout_)
    seen = table.values.mask(hidden)
    truth = table.values.where(hidden)
    maes = {
        name: (create(name).fit(seen).estimates_ - truth).abs().mean()
        for name in ("linear", "pchip")
    }
    found = result.by_sensor
    assert [score.sensor for score in found] == list(table.sensor_ids)
    assert [score.count for score in found] == hidden.sum(axis=0).tolist()
    wanted = {"flfl": (model.holdout_ - truth).abs().mean(), "alone": maes["pchip"]}
    for name, mae in (wanted | {"linear": maes["linear"]}).items():
        np.testing.assert_allclose([score.mae[name] for score in found], mae)
    for score in found:
        others = [mae for name, mae in score.mae.items() if name != "flfl"]
        assert score.lead == pytest.approx(min(others) - score.mae["flfl"])
    summary = result.summary()
    assert summary["sensors_gaining"] == sum(score.lead > score.margin for score in found)
    assert summary["sensors_losing"] == sum(-score.lead > score.margin for score in found)
    told = ("sensors_gaining", "sensors_losing", "sensors_too_close")
    assert sum(summary[name] for name in told) == 10


def test_without_a_self_test_nobody_is_said_to_gain(network):
    result = recover(network[0], method="linear", self_test=False)
    assert all(score.count == 0 and not score.gains for score in result.by_sensor)
    assert result.by_gap_length == ()
    assert result.verdict == ""
    summary = result.summary()
    assert (summary["sensors_gaining"], summary["sensors_too_close"]) == (0, 0)
    assert summary["self_test"] == {}


@pytest.mark.parametrize(("method", "label"), [("alone", "site"), ("pooled", "pooled")])
def test_alone_and_pooled_have_scores_of_their_own_name(method, label, network):
    result = recover(*network, method=method, effort="quick")
    assert list(result.scores) == [label, "alone", "linear"]
    assert result.verdict == ""
    assert result.traffic.numbers == 0


def test_owners_are_scored_from_their_sensors(network):
    table, sensors = network
    owners = [f"o{i % 3}" for i in range(10)]
    result = recover(table, sensors, sites=owners, effort="quick", secure=False)
    assert [score.site for score in result.by_site()] == ["o0", "o1", "o2"]
    assert [score.sensors for score in result.by_site()] == [4, 3, 3]
    counts = np.array([score.count for score in result.by_site()])
    assert counts.sum() == sum(score.count for score in result.by_sensor)
    for way in ("flfl", "site", "alone", "linear"):
        maes = [score.mae[way] for score in result.by_site()]
        assert (counts * maes).sum() / counts.sum() == pytest.approx(result.scores[way]["mae"])


class TestWhatAResultDoes:
    @pytest.fixture
    def result(self, network):
        return recover(network[0].values.sample(frac=1, random_state=0), method="linear")

    def test_a_path_in_and_a_file_out(self, network, tmp_path):
        table, sensors = network
        path, places, out = (tmp_path / f"{name}.csv" for name in ("in", "sensors", "out"))
        table.values.rename_axis("time").to_csv(path)
        write_sensors(places, sensors)
        result = recover(path, places, method="linear", self_test=False)
        result.save(out, flags=tmp_path / "flags.csv")
        filled = pd.read_csv(out, index_col=0)
        assert filled.notna().all().all()
        assert set(pd.read_csv(tmp_path / "flags.csv")["flag"]) == {"observed", "recovered"}

    def test_rows_that_were_not_sorted_are_saved_at_their_times(self, result, network, tmp_path):
        result.save(tmp_path / "out.csv")
        filled = pd.read_csv(tmp_path / "out.csv", index_col=0, parse_dates=True).sort_index()
        known = network[0].known
        np.testing.assert_allclose(filled.to_numpy()[known], network[0].values.to_numpy()[known])

    def test_a_notebook_shows_counts_and_scores(self, result):
        shown = result._repr_html_()
        assert f"{result.count('recovered')} recovered" in shown
        assert "mae" in shown

    def test_the_page(self, network, tmp_path):
        pytest.importorskip("bokeh")
        recover(*network, method="linear").to_html(tmp_path / "page.html", title="Mine")
        assert "Mine" in (tmp_path / "page.html").read_text(encoding="utf-8")

    def test_the_plot_is_of_a_sensor_with_gaps(self, result):
        pytest.importorskip("matplotlib").use("Agg")
        axes = result.plot()
        assert axes.get_title() in result.values.columns
        assert np.isfinite(axes.lines[1].get_ydata()).any()
        with pytest.raises(InputError, match="no sensor"):
            result.plot("nobody")
