"""How much of each sensor's news an adversary can read from what really travels.

For each cell (data, pattern, rate) ``flfl.audit`` runs the package as it is and attacks what the
coordinator saw; the table shows R^2 of a sensor's news, worst / median over sensors, for every
attack that reads news. "alone" scores the masks-known guesses by what the *other* sensors leave
open of a reading (then m, which a sensor moves too, is read as well); "bulk" by news without its
spikes; "computed" is what the sites computed before their first upload. Coalitions stand as
measured (computed).

Exit status 1 if, with the guard on, an attack by the coordinator alone reads more than
``max_exposure + 0.05`` of the news of any sensor, or more than ``0.6 * max_exposure`` numbers
leave for a reading in any window.

    python benchmarks/exposure.py                        # the 20 cells, defaults
    python benchmarks/exposure.py --cells D3:random:0.5,D4:block:0.9 --max-exposure 1
    python benchmarks/exposure.py --cells D3:random:0.5 --set collusion=0.5 --set blur=0.5
    python benchmarks/exposure.py --quick
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from flfl.audit import Finding, Report, audit
from flfl.benchmark.evaluate import training_mask
from flfl.data.datasets import load_dataset

DATA = ("D1_beijing_co", "D2_sst_70x1733", "D3_beijing_pm25", "D4_chongqing_so2")
SHAPES = (("random", 0.1), ("random", 0.5), ("random", 0.9), ("block", 0.5), ("block", 0.9))
QUICK = ("germany_pm10", "random", 0.5)
ATTACKS = (
    "readouts",
    "known-sample",
    "masks-known",
    "whole-numbers",
    "components",
    "latent-vectors",
    "coalition",
)
ALONE = (
    "readouts",
    "known-sample (linear)",
    "known-sample (non-linear)",
    "masks-known (Gaussian)",
    "masks-known (Student-t)",
    "masks-known (memory)",
    "components (one round)",
    "latent-vectors",
)
COALITIONS = ("a quarter", "half", "all but two", "all but one")

Cell = tuple[str, str, float | None]


def run_cell(cell: Cell, settings: dict[str, Any], seed: int, quick: bool) -> Report:
    """Hide, run, attack. Without a rate the gaps are the data's own."""
    name, pattern, rate = cell
    table, sensors = load_dataset(name)
    seen = table.values
    if rate is not None:
        kept = training_mask(table, sensors, rate, pattern, seed)
        seen = seen.where(pd.DataFrame(kept.T, seen.index, seen.columns))
    return audit(seen, sensors, seed=seed, quick=quick, attacks=ATTACKS, **settings)


def breaches(report: Report) -> list[Finding]:
    """Findings of the coordinator alone beyond the cap; nothing where the guard is off."""
    if report.max_exposure >= 1:
        return []
    return [one for one in report.breaches if one.adversary == "the coordinator"]


def too_exposed(cell: Cell, report: Report) -> list[str]:
    """Why a cell fails, in words."""
    where = " ".join(str(part) for part in cell)
    reasons = [
        f"{where}: {one.name} reads {one.news_read_max or one.readings_exposed:.2f}"
        f" of {one.worst_sensor or 'the readings'}"
        for one in breaches(report)
    ]
    if report.max_exposure < 1 and report.numbers_per_reading > 0.6 * report.max_exposure + 1e-9:
        reasons.append(f"{where}: {report.numbers_per_reading:.3f} numbers leave for a reading")
    return reasons


def header() -> str:
    """Two lines of Markdown."""
    names = ["data", "pattern", "rate", "rank", "numbers a reading", "computed", *ALONE]
    names += [f"coalition: {size}" for size in COALITIONS]
    names += ["alone", "bulk", "readings exposed (guessing)", "s"]
    return "| " + " | ".join(names) + " |\n|" + "---|" * len(names)


def line(cell: Cell, report: Report) -> str:
    """One row of Markdown: worst / median."""
    found = {one.name: one for one in report.findings}
    cells = [str(part) for part in cell] + [str(report.rank)]
    cells += [f"{report.numbers_per_reading:.3f}", f"{report.computed_exposure:.2f}"]
    cells += [_pair(found.get(name)) for name in ALONE]
    cells += [_coalition(found.get(f"coalition ({size})")) for size in COALITIONS]
    masks = [one for name, one in found.items() if name.startswith("masks-known")]
    for figure in ("alone_max", "bulk_max"):
        cells.append(f"{max(one.figures[figure] for one in masks):.2f}" if masks else "-")
    shares = [
        (one.readings_exposed, max(one.guessing_exposes.mean, one.guessing_exposes.factors))
        for one in found.values()
        if one.adversary == "the coordinator" and one.readings_exposed and one.guessing_exposes
    ]
    cells.append("{:.3f} ({:.3f})".format(*max(shares)) if shares else "-")
    return "| " + " | ".join([*cells, f"{report.seconds:.0f}"]) + " |"


def _pair(one: Finding | None) -> str:
    if one is None or one.news_read_max is None:
        return "-"
    return f"{one.news_read_max:.2f} / {one.news_read_median:.2f}"


def _coalition(one: Finding | None) -> str:
    if one is None or "measured" not in one.figures:
        return "-"
    return f"{one.figures['measured']:.2f} ({one.figures['computed']:.2f})"


def parse_cells(text: str | None) -> list[Cell]:
    """``D3:random:0.5,D4`` to cells; a name may be cut short, pattern and rate left out.

    ``germany_pm10:natural`` leaves the data's own gaps.
    """
    if text is None:
        return [(name, *shape) for name in DATA for shape in SHAPES]
    cells: list[Cell] = []
    for part in text.split(","):
        name, *rest = part.split(":")
        full = next((known for known in DATA if known.startswith(name)), name)
        if rest == ["natural"]:
            cells.append((full, "natural", None))
        elif rest:
            cells.append((full, rest[0], float(rest[1])))
        else:
            cells += [(full, *shape) for shape in SHAPES]
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", help="data[:pattern:rate], separated by commas")
    parser.add_argument("--max-exposure", type=float, default=0.5)
    parser.add_argument("--projection", choices=("fixed", "learned", "adaptive"))
    parser.add_argument("--rank", type=int)
    parser.add_argument("--set", action="append", default=[], help="another setting, name=value")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write every finding here")
    parser.add_argument("--quick", action="store_true", help="one small cell, less effort")
    options = parser.parse_args()
    cells = [QUICK] if options.quick and not options.cells else parse_cells(options.cells)
    settings = {name: getattr(options, name) for name in ("max_exposure", "projection", "rank")}
    settings |= {name: json.loads(value) for name, value in (s.split("=") for s in options.set)}
    print(header(), flush=True)
    rows, reasons = [], []
    for cell in cells:
        report = run_cell(cell, settings, options.seed, options.quick)
        reasons += too_exposed(cell, report)
        print(line(cell, report), flush=True)
        rows.append({"cell": cell} | report.as_dict())
        if options.json is not None:
            options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for reason in reasons:
        print(reason, file=sys.stderr)
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
