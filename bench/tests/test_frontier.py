"""The script that makes the frontier of accuracy and privacy."""

import importlib.util
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from flfl.datasets.catalogue import load_dataset

PATH = Path(__file__).parents[1] / "benchmarks" / "frontier.py"
spec = importlib.util.spec_from_file_location("frontier_script", PATH)
script = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = script
spec.loader.exec_module(script)

OPTIONS = Namespace(
    data=script.DATA, owners=script.OWNERS, added_error=None, seeds=1, effort="quick"
)


def row(cell, mae=1.0):
    read = dict.fromkeys(script.COLUMNS, 0.25)
    return read | vars(cell) | {"mae": mae}


def test_every_data_set_has_every_setting_once():
    cells = list(script.cells(OPTIONS))
    assert len(cells) == len(set(cells)) == 6 * 2 * 8
    assert {cell.share for cell in cells if cell.added_error == 1} == {0.2, 0.5, 1.0}


def test_rows_are_found_again_and_make_a_page(tmp_path):
    path = tmp_path / "rows.csv"
    cells = [cell for cell in script.cells(OPTIONS) if cell.data == "germany_pm10"]
    for cell in cells:
        script.append(path, row(cell, mae=2.0))
    done = script.rows(path)
    assert {tuple(one) for one in done[list(vars(cells[0]))].itertuples(index=False)} == {
        tuple(vars(cell).values()) for cell in cells
    }
    text = script.page(done)
    assert "| each | 0.25 | 0.5 | 2 | 0.250 | 0.25 / 0.25 |" in text
    assert "| found | alone |" in text
    script.draw(done, tmp_path / "frontier.svg")
    assert (tmp_path / "frontier.svg").stat().st_size > 1000


@pytest.mark.parametrize(("owners", "sites"), [("each", 53), ("found", 13)])
def test_owners_are_those_of_the_data(owners, sites):
    _, sensors = load_dataset("germany_pm10")
    assert len(set(script.owned("germany_pm10", sensors, owners).sites)) == sites
