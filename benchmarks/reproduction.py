"""The paper's four data sets: the paper's own figures beside what the package reaches.

Prints the table of ``docs/reproduction.md``. The data come from the folder FLFL_DATA.

    python benchmarks/reproduction.py > table.md
"""

from __future__ import annotations

import sys

from flfl.datasets.catalogue import load_dataset
from flfl.evaluation import Row, evaluate

RATES = (0.1, 0.5, 0.9)
METHODS = ("flfl-paper", "lfa", "linear", "mean")
# MAE / RMSE of the paper's Table "comparison results of recovery accuracy", column FLFL.
PAPER = {
    "D1_beijing_co": [(0.305, 0.434), (0.201, 0.399), (0.155, 0.328)],
    "D2_sst_70x1733": [(0.324, 0.433), (0.157, 0.215), (0.120, 0.161)],
    "D3_beijing_pm25": [(18.023, 30.479), (10.280, 19.335), (7.993, 14.741)],
    "D4_chongqing_so2": [(2.307, 4.806), (1.830, 4.114), (1.780, 4.000)],
}


def show(row: Row) -> str:
    return row.failed or f"{row.mae:.3f} / {row.rmse:.3f}"


def main() -> None:
    print(
        "| data | rate | paper's FLFL | `flfl-paper` | difference | `exact` gradient"
        " | `lfa` | `linear` | `mean` | rounds | seconds |"
    )
    print("|" + "---|" * 11)
    for name, published in PAPER.items():
        table, sensors = load_dataset(name)
        for rate, (mae, rmse) in zip(RATES, published, strict=True):
            rows = evaluate(table, sensors, rates=[rate], methods=METHODS)
            ours, *others = rows
            exact = evaluate(
                table,
                sensors,
                rates=[rate],
                methods=["flfl-paper"],
                options={"flfl-paper": {"gradient_rule": "exact", "schedule": "synchronous"}},
            )[0]
            change = f"{100 * (ours.mae / mae - 1):+.0f} % / {100 * (ours.rmse / rmse - 1):+.0f} %"
            cells = [name.split("_")[0], rate, f"{mae} / {rmse}", show(ours), change, show(exact)]
            cells += [show(row) for row in others]
            cells += [ours.rounds, f"{ours.seconds:.0f}"]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
            print(f"{name} {rate} done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
