"""A method whose accuracy changes is noticed: cells of the quick experiment, run again."""

import json
from pathlib import Path

import pandas as pd
import pytest

from flfl_bench.experiment import read_experiment
from flfl_bench.runner import run_cell

SHIPPED = Path(__file__).parents[2] / "experiments" / "quick.toml"
EXPECTED = pd.read_csv(Path(__file__).with_name("expected_rows.csv")).set_index(
    ["label", "data", "pattern", "rate", "seed"]
)
TOLERANCE = 0.02
"""Other processors and libraries round otherwise, and a choice among candidates may tip over."""


@pytest.fixture(scope="module")
def experiment():
    return read_experiment(SHIPPED)


def check(cells):
    assert cells
    for cell in cells:
        row = run_cell(json.loads(json.dumps(cell.as_dict())))
        assert "failed" not in row, row
        expected = EXPECTED.loc[(cell.label, cell.source.name, cell.pattern, cell.rate, cell.seed)]
        for metric in ("mae", "rmse"):
            assert row[metric] == pytest.approx(expected[metric], rel=TOLERANCE), cell


def test_every_cell_has_an_expected_row(experiment):
    named = {(c.label, c.source.name, c.pattern, c.rate, c.seed) for c in experiment.cells}
    assert named == set(EXPECTED.index)


def test_one_cell_of_every_method_that_is_quick(experiment):
    made = experiment.select(data=["made 16x400"], rates=[0.5])
    check([cell for cell in made if cell.seed == 0 and cell.label != "flfl-paper"])


def test_the_bundled_data_each_sensor_alone(experiment):
    check(experiment.select(data=["germany_pm10"], labels=["linear", "pchip", "mean"]))


@pytest.mark.slow
def test_all_cells_of_one_seed(experiment):
    check([cell for cell in experiment.cells if cell.seed == 0])
