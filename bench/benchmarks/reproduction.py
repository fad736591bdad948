"""The paper's four data sets: the paper's own figures beside what the package reaches.

Prints the table of ``docs/reproduction.md``. The data come from the folder FLFL_DATA.

    python bench/benchmarks/reproduction.py > table.md
"""

from __future__ import annotations

import argparse
import sys

from flfl.datasets.catalogue import load_dataset
from flfl.evaluation import Row, evaluate
from flfl_bench.paper import DATA, printed

RATES = (0.1, 0.5, 0.9)
METHODS = ("flfl-paper", "lfa", "linear", "mean")


def show(row: Row) -> str:
    return row.failed or f"{row.mae:.3f} / {row.rmse:.3f}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    paper = printed()
    print(
        "| data | rate | paper's FLFL | `flfl-paper` | difference | `exact` gradient"
        " | `lfa` | `linear` | `mean` | rounds | seconds |"
    )
    print("|" + "---|" * 11)
    for name in DATA:
        table, sensors = load_dataset(name)
        for rate in RATES:
            mae, rmse = paper[name, rate, "flfl"].mae, paper[name, rate, "flfl"].rmse
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
