"""Random tables of every kind: no crash, no warning, nothing absurd, never worse than alone."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "bench" / "benchmarks" / "random_tables.py"
spec = importlib.util.spec_from_file_location("random_tables", BENCHMARK)
tables = importlib.util.module_from_spec(spec)
sys.modules["random_tables"] = tables
spec.loader.exec_module(tables)

# The constants of the choice were looked at on seeds below 300 of a sister of this generator, those
# of the draws of held-out readings on seeds below 200 and 1550 to 1679 of this one.
FIRST = 1000


def holds(rows):
    """The promises, on some tables."""
    found = tables.summary(rows)
    assert found["absurd"] == 0
    assert found["network"] <= 1.02
    worst = sorted((row for row in rows if row.count), key=lambda row: -row.ratio)[:5]
    assert found["above_1.1"] <= 0.02, [(row.seed, row.ratio, row.about) for row in worst]


def test_some_tables():
    holds([tables.judge(seed) for seed in range(FIRST, FIRST + 8)])


def test_a_season_beyond_all_numbers():
    """A table whose vote on a transform undid a logarithm of 1e4 and more."""
    assert tables.judge(13423).absurd == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_a_thousand_tables(part):
    # Two halves, so that two workers can share them; each must keep the promises by itself. Fewer
    # tables would not do: one above 1.1 in a hundred is found, two in a hundred are promised.
    start = FIRST + 50 + 500 * part
    holds([tables.judge(seed) for seed in range(start, start + 500)])
