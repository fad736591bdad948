"""The paper's printed table, to stand beside ours."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import pandas as pd

DATA = {
    "D1_beijing_co": "D1",
    "D2_sst_70x1733": "D2",
    "D3_beijing_pm25": "D3",
    "D4_chongqing_so2": "D4",
}
"""Our data sets and the paper's names for them."""


class Printed(NamedTuple):
    """One cell of the paper's table."""

    mae: float
    rmse: float


def values() -> pd.DataFrame:
    """The table as printed: data, rate, method, mae, mae_sd, rmse, rmse_sd.

    Examples
    --------
    >>> table = values()
    >>> len(table), float(table[table["method"] == "flfl"]["mae"].min())
    (72, 0.12)
    """
    with (files("flfl_bench") / "paper_values.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def printed() -> dict[tuple[str, float, str], Printed]:
    """The same by our data set, rate and method."""
    ours = {short: name for name, short in DATA.items()}
    return {
        (ours[row["data"]], row["rate"], row["method"]): Printed(row["mae"], row["rmse"])
        for row in values().to_dict("records")
    }
