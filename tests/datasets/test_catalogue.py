"""Bundled data, data of one's own, and made-up data."""

from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flfl.datasets.catalogue import list_datasets, load_dataset
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.io.write import write_result, write_sensors


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLFL_DATA", raising=False)


def test_bundled_germany() -> None:
    table, sensors = load_dataset("germany_pm10")
    assert table.values.shape == (1826, 53)
    assert table.step == pd.Timedelta(days=1)
    assert table.positions.tolist() == list(range(1826))
    assert table.values.notna().sum().min() >= 100
    assert table.values.isna().to_numpy().mean() == pytest.approx(0.227, abs=1e-3)
    assert sensors.ids == table.sensor_ids
    assert sensors.kind == "latlon"
    assert table.values.index[0] == pd.Timestamp("2005-01-01")


def test_bundled_file_has_no_time_stamp_and_an_attribution() -> None:
    place = files("flfl.datasets") / "bundled" / "germany_pm10"
    header = (place / "readings.csv.gz").read_bytes()[:10]
    assert header[4:8] == b"\0\0\0\0"
    assert "European Environment Agency" in (place / "README.txt").read_text()


def make(folder: Path, name: str, with_sensors: bool = True) -> None:
    (folder / name).mkdir(parents=True)
    packed = gzip.compress(b"day,a,b\n1,1,2\n2,3,\n")
    (folder / name / "readings.csv.gz").write_bytes(packed)
    (folder / name / "README.txt").write_text("A small one.\nMore.\n")
    if with_sensors:
        (folder / name / "sensors.csv").write_text("sensor_id,x,y\nb,1,2\na,3,4\n")


def test_a_directory_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "mine", "tiny")
    make(tmp_path / "mine", "bare", with_sensors=False)
    make(tmp_path / "mine", "germany_pm10")
    monkeypatch.setenv("FLFL_DATA", str(tmp_path / "mine"))
    assert [d.name for d in list_datasets()] == ["germany_pm10", "bare", "tiny"]
    assert list_datasets()[2].about == "A small one."
    table, sensors = load_dataset("tiny")
    assert table.values.shape == (2, 2)
    np.testing.assert_array_equal(sensors.coordinates, [[3, 4], [1, 2]])
    assert load_dataset("bare")[1].coordinates is None
    assert load_dataset("germany_pm10")[0].values.shape == (1826, 53)


def test_default_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "shared" / "data", "tiny")
    (tmp_path / "repo").mkdir()
    monkeypatch.chdir(tmp_path / "repo")
    assert [d.name for d in list_datasets()] == ["germany_pm10", "tiny"]


def test_unknown_names_and_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "mine", "abc")
    monkeypatch.setenv("FLFL_DATA", str(tmp_path / "mine"))
    with pytest.raises(InputError, match=r"'germany_pm25'.* Did you mean 'germany_pm10'"):
        load_dataset("germany_pm25")
    with pytest.raises(InputError, match="Known are germany_pm10, abc"):
        load_dataset("ABD")
    monkeypatch.setenv("FLFL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"FLFL_DATA: .*nowhere"):
        list_datasets()


def test_synthetic_network() -> None:
    table, sensors = synthesize(15, 500, missing=0.3, rng=np.random.default_rng(0))
    assert table.values.shape == (500, 15)
    assert table.values.min().min() > 0
    assert table.values.isna().to_numpy().mean() == pytest.approx(0.3, abs=0.01)
    assert table.values.notna().any().all()
    assert sensors.coordinates is not None
    assert sensors.coordinates.shape == (15, 2)
    again, _ = synthesize(15, 500, missing=0.3, rng=np.random.default_rng(0))
    pd.testing.assert_frame_equal(table.values, again.values)


def test_synthetic_rank_daily_cycle_and_smoothness() -> None:
    table, _ = synthesize(30, 24 * 60, rank=3, noise=0.0, missing=0.0, rng=np.random.default_rng(1))
    values = table.values.to_numpy()
    sizes = np.linalg.svd(values - 50, compute_uv=False)
    # Readings have one decimal; beyond the rank there is nothing but rounding.
    assert sizes[3] < 0.05 * np.sqrt(values.size)
    center = values - values.mean(axis=0)
    assert (center[:-1] * center[1:]).mean() > 0.9 * (center**2).mean()
    by_hour = table.values.groupby(table.values.index.hour).mean().mean(axis=1)
    assert by_hour.max() - by_hour.min() > 5


def test_synthetic_round_trip_and_steps(tmp_path: Path) -> None:
    table, sensors = synthesize(3, 12, rng=np.random.default_rng(0), start="2000-01-01", step="MS")
    assert table.positions.tolist() == list(range(12))
    write_result(tmp_path / "r.csv", None, table, table.values)
    write_sensors(tmp_path / "s.csv", sensors)
    assert (tmp_path / "r.csv").read_text().startswith("time,s0,s1,s2\n2000-01-01,")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sensors": 0}, "sensors"),
        ({"slots": 1}, "slots: .*2 or more"),
        ({"rank": 0}, "rank"),
        ({"noise": -1.0}, "noise"),
        ({"missing": 1.0}, "missing"),
        ({"step": "soon"}, "start, step"),
    ],
)
def test_synthetic_bad_arguments(change, words: str) -> None:
    with pytest.raises(InputError, match=words):
        synthesize(**({"sensors": 3, "slots": 5, "rng": np.random.default_rng(0)} | change))
