"""Files and a way to run the command line, for all its tests."""

import numpy as np
import pytest
from click.testing import CliRunner

from flfl.cli import main
from flfl.datasets.synthetic import synthesize
from flfl.io.write import write_result, write_sensors


@pytest.fixture
def run():
    def call(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    return call


@pytest.fixture
def files(tmp_path):
    table, sensors = synthesize(8, 240, rank=2, rng=np.random.default_rng(0))
    readings, described = tmp_path / "readings.csv", tmp_path / "sensors.csv"
    write_result(readings, None, table, table.values)
    write_sensors(described, sensors)
    return readings, described
