"""Every method on the paper's four data sets at three rates: the table of ``docs/baselines.md``.

Two worker processes with one BLAS thread each share the cells; rows are appended to a JSON-lines
file as they are finished, and a rerun goes on where it stopped. The data come from FLFL_DATA.

    python benchmarks/baselines.py rows.jsonl > table.md
    python benchmarks/baselines.py rows.jsonl --methods tvgs,idw --data D2_sst_70x1733
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

DATA = ("D1_beijing_co", "D2_sst_70x1733", "D3_beijing_pm25", "D4_chongqing_so2")
RATES = (0.1, 0.5, 0.9)
WORKERS = 2
PRINTED_AS = {"flfl-paper": "flfl"}
"""The paper prints its own method under the name of our default one."""
# Read by the numeric libraries when they are first imported, in every new process.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Cell = tuple[str, str, float]
"""Data set, method, rate."""


def run(cell: Cell) -> dict[str, Any]:
    """One method at one rate, in a worker."""
    from flfl.benchmark import evaluate
    from flfl.data.datasets import load_dataset

    data, method, rate = cell
    (row,) = evaluate(*load_dataset(data), rates=[rate], methods=[method])
    return {"data": data, **row.as_dict()}


def known_rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def key(row: dict[str, Any]) -> Cell:
    return row["data"], row["method"], row["rate"]


def run_all(cells: list[Cell], path: Path) -> float:
    """Run what is not in the file yet; minutes that it took."""
    for name in ONE_THREAD:
        os.environ[name] = "1"
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with context.Pool(WORKERS) as pool, path.open("a", encoding="utf-8") as file:
        for row in pool.imap_unordered(run, cells):
            file.write(json.dumps(row) + "\n")
            file.flush()
            took = f"{row['seconds']:.1f} s and {row['tuning_seconds']:.1f} s of tuning"
            print(*key(row), row["failed"] or f"{row['mae']:.4f}", took, file=sys.stderr)
    return (time.perf_counter() - start) / 60


def size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes else "-"


def show(rows: list[dict[str, Any]]) -> None:
    """The Markdown table, best first within a cell."""
    with (files("flfl.benchmark") / "paper_values.csv").open(encoding="utf-8") as file:
        printed = pd.read_csv(file).set_index(["data", "rate", "method"])
    print(
        "| data | rate | method | MAE | RMSE | paper's MAE / RMSE | s | tuning s | bytes | chosen |"
    )
    print("|" + "---|" * 10)
    order = sorted(rows, key=lambda row: (row["data"], row["rate"], row["mae"] or float("inf")))
    for row in order:
        short = row["data"].split("_")[0]
        place = (short, row["rate"], PRINTED_AS.get(row["method"], row["method"]))
        has = place in printed.index and row["method"] != "flfl"
        paper = f"{printed.loc[place, 'mae']} / {printed.loc[place, 'rmse']}" if has else ""
        scores = [
            row["failed"] or f"{row['mae']:.3f}",
            "" if row["failed"] else f"{row['rmse']:.3f}",
        ]
        chosen = ", ".join(f"{name} {value:g}" for name, value in row["settings"].items())
        cost = [f"{row['seconds']:.1f}", f"{row['tuning_seconds']:.1f}"]
        cells = [short, row["rate"], f"`{row['method']}`", *scores, paper, *cost]
        cells += [size(row["bytes_up"] + row["bytes_down"]), chosen]
        print("| " + " | ".join(map(str, cells)) + " |")


def main() -> None:
    from flfl.baselines import METHODS

    available = [name for name, method in METHODS.items() if method.available]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, help="JSON-lines file of finished rows")
    parser.add_argument("--methods", default=",".join(available))
    parser.add_argument("--data", default=",".join(DATA))
    asked = parser.parse_args()
    wanted = list(product(asked.data.split(","), asked.methods.split(","), RATES))
    done = {key(row) for row in known_rows(asked.rows)}
    left = [cell for cell in wanted if cell not in done]
    minutes = run_all(left, asked.rows) if left else 0.0
    show([row for row in known_rows(asked.rows) if key(row) in set(wanted)])
    print(f"\n{len(left)} cells in {minutes:.1f} minutes on {WORKERS} processes.")


if __name__ == "__main__":
    main()
