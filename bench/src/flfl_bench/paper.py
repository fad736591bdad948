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
LEFT_OUT = """\
The paper reports 24 wins of 24 over each of five federated methods, p = 0.0001 for each, and mean
ranks. What it leaves out:

- The 24 are 12 pairs (four data sets, three rates), each counted twice: as MAE and as RMSE of the
  same run. They are not independent, and a signed-rank test of 12 wins of 12 cannot give a p-value
  below 0.0005 (two-sided); of 24 it gives 0.0000001 exactly and 0.00002 by the normal
  approximation. 0.0001 is none of these.
- Two of its mean ranks are not those of its printed figures: FedMF's are 3.833 (printed 3.883) and
  RFRec's 4.438 (4.376).
- How many runs the "±" stands for, and whether it is a deviation or an interval; no size of an
  effect; no correction for five tests at once; no test of the differences between the others.
- The settings of its method and of the others, and how they were chosen.
- Central methods and each sensor alone, although its text claims more accuracy than "non-federated
  spatio-temporal methods": there is none in its table.
- Gaps that come in runs: it has sampling rates only.
"""


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
