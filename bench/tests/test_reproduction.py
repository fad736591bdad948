"""The page of the reproduction says what its rows say."""

import importlib.util
import sys
from pathlib import Path

import pytest

from flfl_bench.paper import printed
from flfl_bench.statistics import scores
from flfl_bench.store import read_rows

PATH = Path(__file__).parents[1] / "benchmarks" / "reproduction.py"
spec = importlib.util.spec_from_file_location("reproduction_script", PATH)
script = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = script
spec.loader.exec_module(script)


@pytest.fixture(scope="module")
def rows():
    return read_rows(script.FOLDER / "rows.parquet")[0]


@pytest.mark.parametrize("name", ["cells", "changes", "ablation"])
def test_every_table_is_that_of_the_rows(rows, name):
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.fill(page, name, getattr(script, name)(rows).markdown()) == page


def test_the_statistics_too(rows):
    page = script.PAGE.read_text(encoding="utf-8")
    grid, said = script.as_it_should_be(rows)
    assert script.fill(page, "as_it_should_be", f"{grid.markdown()}\n\n{said}") == page


def test_what_the_page_says_of_the_paper_s_figures(rows):
    own = rows[rows["label"] == script.OURS]
    assert (own.groupby(["data", "rate"])["seed"].nunique() == 5).all()
    mae, rmse = (scores(own, metric)[script.OURS] for metric in ("mae", "rmse"))
    ratios = {
        (name, rate): (mae[name, "random", rate] / cell.mae, rmse[name, "random", rate] / cell.rmse)
        for (name, rate, method), cell in printed().items()
        if method == "flfl"
    }
    assert len(ratios) == 12
    assert sum(ratio <= 1 for ratio, _ in ratios.values()) == 11
    assert max(ratio for ratio, _ in ratios.values()) < 1.014
    apart = ratios.pop(("D1_beijing_co", 0.1))
    assert apart[1] == pytest.approx(1.26, abs=0.005)
    assert max(ratio for _, ratio in ratios.values()) < 1.026
    assert own["rounds"].max() <= 400


def test_what_the_page_says_of_cost_and_of_the_paper_s_way_of_counting(rows):
    page = script.PAGE.read_text(encoding="utf-8")
    own = rows[rows["label"] == script.OURS]
    gigabytes = (own["bytes_up"] + own["bytes_down"]) / 1e9
    own = own.assign(shared=gigabytes, apart=gigabytes * own["sensors"])
    each = own.groupby(["data", "rate"])[["rounds", "cpu_seconds", "shared", "apart"]].median()
    least, most = each.min(), each.max()
    rounds, seconds, shared, apart = (
        f"{least[c]:.{d}f} to {most[c]:.{d}f}" for c, d in zip(each, (0, 0, 1, 0), strict=True)
    )
    assert f"{rounds} rounds and {seconds} processor seconds" in page
    assert f"moves {shared} GB where all sensors share one uplink, {apart} GB" in page
    errors = {metric: scores(rows, metric) for metric in script.METRICS}
    wins = {
        label: sum((e[script.OURS] < e[label]).sum() for e in errors.values())
        for label in script.BASELINES
    }
    assert set(wins.values()) == {24}
    assert "ours are 24 of 24" in page


def test_a_page_without_a_place_for_a_table_is_refused():
    with pytest.raises(SystemExit, match="0 places for cells"):
        script.fill("nothing here", "cells", "")
