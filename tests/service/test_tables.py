"""An owner's own files: what nobody in the network observed stays empty."""

import numpy as np
import pandas as pd
import pytest

from flfl.config import OutSettings
from flfl.ensemble.recovery import Recovered
from flfl.service.grid import TimeGrid
from flfl.service.home import Snapshot
from flfl.service.tables import write_tables


@pytest.mark.parametrize("extrapolate", [0, 1, 2])
def test_slots_that_nobody_observed(tmp_path, extrapolate):
    values = np.arange(20.0).reshape(2, 10)
    values[:, 5:], values[0, 2] = np.nan, np.nan
    taken = Snapshot(["a", "b"], values, None, "")
    grid = TimeGrid("2024-01-01", "1 hour", 10)
    result = Recovered(*(np.full((2, 10), x) for x in (3.0, 2.0, 4.0, 2.0, *[np.nan] * 4)))
    # Others have readings in slot 5; of the last slot nothing is public yet.
    others = np.isin(np.arange(9), [5])
    out = OutSettings(
        file=tmp_path / "out.csv", flags=tmp_path / "flags.csv", extrapolate=extrapolate
    )
    write_tables(out, taken, grid, result, others, "run 7")
    flags = pd.read_csv(tmp_path / "flags.csv").set_index(["sensor", "time"])
    for sensor in "ab":
        flag = flags.loc[sensor, "flag"].tolist()
        assert flag[5] == "recovered"
        assert flag[6:].count("extrapolated") == extrapolate
        assert flag[6:].count("refused") == 4 - extrapolate
    reasons = flags["reason"].dropna()
    assert set(reasons) == {"nobody observed this slot"}
    assert len(reasons) == 2 * (4 - extrapolate)
    written = pd.read_csv(tmp_path / "out.csv")
    assert written["a"].isna().sum() == 4 - extrapolate
    assert written["a"][2] == 3.0
