"""What a run brought an owner: its page, its scores and its diary, made at home."""

import json

import numpy as np
import pytest

from deployed import Deployment, pooled
from flfl.config import OutSettings
from flfl.ensemble.recovery import Recovered
from flfl.io.files import write_files
from flfl.methods import described
from flfl.report import missing_libraries
from flfl.report.content import what_left
from flfl.service import night, tables
from flfl.service.diary import Diary
from flfl.service.grid import TimeGrid
from flfl.service.home import Snapshot
from flfl.service.night import Night, gained
from report.conftest import browser

__all__ = ["browser"]
GRID = TimeGrid("2024-01-01", "1h", 60)


def test_the_gain_is_that_on_held_out_readings():
    values, holdout = np.array([[1.0, 2.0, np.nan]]), np.array([[1.5, np.nan, np.nan]])
    assert gained(values, holdout, holdout + 0.5) == {"error": 0.5, "alone": 1.0, "gain": 0.5}
    assert gained(values, np.full((1, 3), np.nan), holdout) == {}


def test_an_owner_without_copies_is_told_that_nothing_left():
    summary = {"numbers_per_reading": 0.4, "sites": 1, "rounds": 5, "bytes_up": 1, "bytes_down": 1}
    summary |= {"bytes_raw": 8, "secure": True, "guarantee": []}
    summary |= {"added_error": {"median": np.nan, "unit": ""}}
    assert "nothing made from readings left" in what_left(summary, described("flfl"))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A finished run whose first site wants page and scores."""
    pytest.importorskip("paho.mqtt")
    if missing_libraries():
        pytest.skip("the extra report is not installed")
    deployment = Deployment(tmp_path_factory.mktemp("network"), pooled(6, 150, 3), tls=False)
    path = deployment.folder / "site0.toml"
    wanted = 'page = "site0.html"\nscores = "site0.json"\n[terms]'
    path.write_text(path.read_text().replace("[terms]", wanted))
    try:
        codes = deployment.start().wait()
        assert set(codes.values()) == {0}, (codes, deployment.said("coordinator"))
        yield deployment
    finally:
        deployment.close()


@pytest.mark.slow
def test_a_site_gets_its_own_scores_beside_those_without_the_network(network):
    scores = json.loads((network.folder / "site0.json").read_text())
    frame, _, owners = network.data
    own = [name for name, owner in zip(frame.columns, owners, strict=True) if owner == "site0"]
    assert [row["sensor"] for row in scores["by_sensor"]] == own
    assert {"flfl", "alone", "linear", "site"} == set(scores["self_test"])
    (run,) = Diary(network.folder / "site0-state").runs
    assert scores["self_test"]["flfl"]["mae"] == pytest.approx(run.figure("error"))
    assert scores["self_test"]["site"]["mae"] == pytest.approx(run.figure("alone"))
    assert scores["nights"][-1]["gain"] == run.figure("gain")
    assert run.figure("gaps") == run.figure("filled") == frame[own].isna().to_numpy().sum()
    assert scores["added_error"]["median"] > 0
    assert scores["bytes_up"] > 0


@pytest.mark.slow
def test_the_page_shows_the_owner_and_nobody_else(network, browser):
    from report.browser import OpenPage, assert_quiet

    page = OpenPage(browser, network.folder / "site0.html")
    frame, _, owners = network.data
    rows = "document.querySelectorAll('#by-sensor tbody th')"
    shown = page.js(f"return [...{rows}].map((e) => e.textContent)")
    mine = [name for name, owner in zip(frame.columns, owners, strict=True) if owner == "site0"]
    assert shown == mine
    text = page.find("body").text
    assert "site0 in the network test" in text
    assert "owner alone" in text
    assert "The nights so far" in text
    assert len(page.browser.find_elements("css selector", ".nights rect")) == 1
    assert_quiet(page)


@pytest.mark.slow
def test_what_the_coordinator_keeps_holds_no_score(network):
    text = (network.folder / "coordinator-state" / "diary.json").read_text()
    assert not {"error", "alone", "gain", "filled"} & set(json.loads(text)["runs"][0])


def write(folder, **out):
    """A small result with a night, as a site writes it."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, GRID.slots))
    values[0, 20:30] = np.nan
    holdout = np.full(values.shape, np.nan)
    holdout[:, 3::7] = values[:, 3::7] + 0.1
    parts = [values, values - 1, values + 1, np.zeros(values.shape), holdout, holdout * 0, values,
             holdout + 0.1]  # fmt: skip
    result = Recovered(*(np.nan_to_num(part) if n < 3 else part for n, part in enumerate(parts)))
    diary = Diary(folder)
    nothing = {name: {} for name in ("up", "down", "messages_up", "messages_down")}
    made = Night("a", "n", True, 0.5, 5, np.array([1.0, 2.0]), nothing, {})
    settings = OutSettings(file=folder / "filled.csv", **out)
    taken = Snapshot(["s1", "s2"], values, None, "")
    tables.write_tables(
        settings, taken, GRID, result, np.ones(GRID.slots, bool), "n-1", made, diary
    )
    return diary


def test_a_page_that_cannot_be_made_costs_the_page_alone(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(night.sys, "executable", "/bin/false")
    diary = write(tmp_path, page=tmp_path / "a.html", scores=tmp_path / "a.json")
    assert (tmp_path / "filled.csv").exists()
    assert not (tmp_path / "a.html").exists()
    assert "the page and the scores could not be made" in caplog.text
    assert diary.runs[0].figure("gain") == pytest.approx(0.5)


def test_table_page_and_scores_appear_together_or_not_at_all(tmp_path, monkeypatch):
    import flfl.io.write

    def broken(writers, **how):
        *_, last = writers
        write_files(
            {**writers, last: lambda file: (_ for _ in ()).throw(OSError("disk full"))}, **how
        )

    monkeypatch.setattr(flfl.io.write, "write_files", broken)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path, scores=tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_one_that_joined_at_the_end_is_told_that_nothing_left_it(tmp_path):
    diary = write(tmp_path, page=tmp_path / "a.html", scores=tmp_path / "a.json")
    assert "Nothing left this owner in this run" in (tmp_path / "a.html").read_text()
    assert json.loads((tmp_path / "a.json").read_text())["nights"][-1]["run"] == "n-1"
    assert diary.totals["runs"] == 1
