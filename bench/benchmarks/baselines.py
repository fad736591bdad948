"""The table of ``docs/baselines.md`` from rows of ``flfl-bench run``: one seed, three rates.

    flfl-bench run experiments/paper_table.toml --out table
    python bench/benchmarks/baselines.py table/rows.parquet > table.md

Processor seconds are those of tuning and the final fit together; the last line adds them up.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

from flfl.report.content import figure, size
from flfl_bench.paper import DATA, printed

RATES = (0.1, 0.5, 0.9)
PRINTED_AS = {"flfl-paper": "flfl", "flfl": "none"}
"""The paper prints its own method under the name of our default one."""
HEADER = (
    "data",
    "rate",
    "method",
    "MAE",
    "RMSE",
    "paper's MAE / RMSE",
    "processor s",
    "bytes",
    "chosen",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    rows = pd.read_parquet(parser.parse_args().rows)
    rows = rows[(rows["seed"] == 0) & rows["rate"].isin(RATES) & (rows["pattern"] == "random")]
    paper = printed()
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    for row in rows.sort_values(["data", "rate", "mae"]).to_dict("records"):
        there = paper.get((row["data"], row["rate"], PRINTED_AS.get(row["method"], row["method"])))
        failed = isinstance(row["failed"], str)
        # A cell that was cut off knows neither its bytes nor its settings.
        moved = 0 if failed else row["bytes_up"] + row["bytes_down"]
        chosen = {} if failed else json.loads(row["settings"])
        cells = [
            DATA[row["data"]],
            row["rate"],
            f"`{row['method']}`",
            row["failed"] if failed else figure(row["mae"]),
            "" if failed else figure(row["rmse"]),
            f"{there.mae:g} / {there.rmse:g}" if there else "",
            figure(row["cpu_seconds"], 3),
            size(moved) if moved else "-",
            ", ".join(f"{name} {value:g}" for name, value in chosen.items()),
        ]
        print("| " + " | ".join(map(str, cells)) + " |")
    minutes = rows["cpu_seconds"].sum() / 60
    print(f"\n{len(rows)} cells, {minutes:.0f} processor minutes, tuning included.")


if __name__ == "__main__":
    main()
