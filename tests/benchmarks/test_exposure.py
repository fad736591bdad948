"""The script that makes the table of exposures."""

import importlib.util
from pathlib import Path

import pytest

from flfl.audit import Finding, Report

PATH = Path(__file__).parents[2] / "benchmarks" / "exposure.py"
spec = importlib.util.spec_from_file_location("exposure_script", PATH)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

CELL = ("x", "random", 0.5)


def report(read, numbers=0.3, cap=0.5, adversary="the coordinator"):
    found = Finding("readouts", adversary, "", news_read_max=read, news_read_median=0.1)
    return Report([found], "sums", cap, True, 4, 20, rank=3, numbers_per_reading=numbers)


def test_a_row_says_why_it_fails():
    assert script.too_exposed(CELL, report(0.54)) == []
    assert len(script.too_exposed(CELL, report(0.56))) == 1
    assert len(script.too_exposed(CELL, report(0.56, numbers=0.31))) == 2
    assert script.too_exposed(CELL, report(0.99, numbers=9.0, cap=1.0)) == []
    assert script.too_exposed(CELL, report(0.99, adversary="the coordinator and a friend")) == []


def test_a_row_has_the_header_s_columns():
    columns = script.header().splitlines()[0].count("|")
    assert script.line(CELL, report(0.2)).count("|") == columns


@pytest.mark.parametrize(
    ("text", "count"), [(None, 20), ("D4", 5), ("D3:block:0.5", 1), ("germany_pm10:natural,D1", 6)]
)
def test_cells_may_be_cut_short(text, count):
    assert len(script.parse_cells(text)) == count


def test_a_cell_is_named_in_full():
    assert script.parse_cells("D3:block:0.5") == [("D3_beijing_pm25", "block", 0.5)]
    assert script.parse_cells("germany_pm10:natural") == [("germany_pm10", "natural", None)]
