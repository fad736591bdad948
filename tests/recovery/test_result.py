"""A result shows itself, is drawn, is turned into other forms, and comes back from a file."""

import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl import load, recover
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.recovery.showing import telling

NOTEBOOK = Path(__file__).parents[2] / "docs" / "examples" / "result.ipynb"


@pytest.fixture(scope="module")
def result():
    table, sensors = synthesize(6, 300, rank=2, rng=np.random.default_rng(0))
    values = table.values.copy()
    values.iloc[100:110, 2] = np.nan
    values.iloc[280:, 4] = np.nan
    return recover(values, sensors, method="linear", max_gap=15, suspicious="missing")


def test_the_short_form_is_one_line(result):
    said = repr(result)
    assert "\n" not in said
    assert len(said) < 300
    assert "6 sensors x 300 slots" in said
    assert f"{result.count('recovered')} recovered" in said


def test_the_form_for_notebooks(result):
    shown = result._repr_html_()
    assert "<svg" in shown
    assert "<table" in shown
    assert not re.search(r"nan|inf", re.sub(r"<[^>]*>", "", shown))
    assert "src=" not in shown


def test_names_are_escaped():
    frame = pd.DataFrame({"<script>x": np.arange(60.0), "b": np.arange(60.0) + 1})
    frame.iloc[20:23, 0] = np.nan
    assert "<script>x" not in recover(frame, method="linear")._repr_html_()


def test_the_gap_that_tells_most_is_filled_whole_between_readings(result):
    sensor, first, last = telling(result)
    flags = result.flags.to_numpy()
    assert (flags[first : last + 1, sensor] == "recovered").all()
    assert flags[first - 1, sensor] == flags[last + 1, sensor] == "observed"


class TestPlots:
    @pytest.fixture(autouse=True)
    def pyplot(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        from matplotlib import pyplot

        yield pyplot
        pyplot.close("all")

    def test_a_sensor(self, result, pyplot):
        axes = result.plot()
        assert axes.get_title() in result.values.columns
        name = result.values.columns[0]
        assert result.plot(name, ax=pyplot.subplots()[1]).get_title() == name
        with pytest.raises(InputError, match="no sensor 'z'"):
            result.plot("z")

    def test_gaps(self, result):
        axes = result.plot_gaps()
        codes = axes.get_images()[0].get_array()
        assert codes.shape == (6, 300)
        assert (np.asarray(codes) == 1).sum() == result.count("recovered")

    def test_scores(self, result):
        axes = result.plot_scores()
        heights = [bar.get_height() for bar in axes.containers[0]]
        way = next(iter(result.by_gap_length[0].mae))
        assert heights == [score.mae[way] for score in result.by_gap_length]
        edges = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches)
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(edges))
        without = recover(result.table, method="linear", self_test=False)
        with pytest.raises(InputError, match="no self-test"):
            without.plot_scores()


def test_long(result):
    long = result.to_long()
    assert len(long) == 6 * 300
    back = long.pivot(index="time", columns="sensor", values="value")[result.values.columns]
    np.testing.assert_array_equal(back.to_numpy(), result.values.to_numpy())
    assert set(long["flag"]) <= {"observed", "recovered", "refused", "extrapolated"}


def test_xarray(result):
    pytest.importorskip("xarray")
    made = result.to_xarray()
    assert made["value"].dims == ("time", "sensor")
    np.testing.assert_array_equal(made["value"], result.values)
    assert made["flag"].sel(sensor=result.values.columns[0]).to_numpy().tolist() == (
        result.flags.iloc[:, 0].tolist()
    )
    assert "latitude" in made.coords or "x" in made.coords


def test_save_and_load(result, tmp_path):
    path = tmp_path / "result.zip"
    result.save(path)
    assert path.stat().st_mode & 0o077 == 0
    again = load(path)
    for one in fields(result):
        mine, kept = getattr(result, one.name), getattr(again, one.name)
        if isinstance(mine, pd.DataFrame):
            pd.testing.assert_frame_equal(mine, kept, check_dtype=False, check_freq=False)
        elif one.name in ("verdict", "scores", "by_gap_length", "method", "run_id", "sites"):
            assert mine == kept
    assert again.summary()["by_site"] == result.summary()["by_site"]
    assert again.rules == result.rules
    again.save(tmp_path / "filled.csv")
    assert repr(again) == repr(result)


def test_another_suffix_is_refused_with_those_that_are_there(result, tmp_path):
    with pytest.raises(InputError, match=r"\.zip for the whole result"):
        result.save(tmp_path / "x.flfl")


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip"])
def test_what_is_no_saved_result(content, tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(InputError):
        load(path)


@pytest.mark.slow
def test_a_notebook_shows_it_all(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    kinds = [kind for out in outputs for kind in out.get("data", {})]
    assert kinds.count("image/png") == 3
    assert kinds.count("text/html") >= 4
    assert (tmp_path / "page.html").exists()
    # Progress leaves nothing behind.
    assert not [out for out in outputs if out.get("name") == "stderr"]
    assert "round" not in " ".join(str(out.get("data", {}).get("text/plain")) for out in outputs)
    assert not [out for out in outputs if out.output_type == "error"]
