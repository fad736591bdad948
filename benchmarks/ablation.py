"""Each part of the default method off in turn, so that nothing stays that does not pay.

    python benchmarks/ablation.py > table.md

Parts without a switch are taken out by replacing one function; a head is taken out by putting
the shared curve in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import results

from flfl.federation.factors import heads as local_heads
from flfl.federation.factors import program
from flfl.federation.factors.site import FactorSite
from flfl.model.heads.candidates import NAMES

CELLS = (
    ("D1_beijing_co", "random", 0.5),
    ("D2_sst_70x1733", "random", 0.5),
    ("D3_beijing_pm25", "random", 0.1),
    ("D3_beijing_pm25", "block", 0.5),
    ("D4_chongqing_so2", "block", 0.9),
)


@contextmanager
def without_candidates(*dropped: str) -> Iterator[None]:
    original = local_heads.local.candidates

    def fewer(*given: Any, **named: Any) -> Any:
        found = original(*given, **named)
        for name in dropped:
            found.values[NAMES.index(name)] = found.values[NAMES.index("shared")]
        return found

    with patch.object(local_heads.local, "candidates", fewer):
        yield


@contextmanager
def without_dynamics() -> Iterator[None]:
    def forget(m: np.ndarray, cov: Any, **_: Any) -> tuple[np.ndarray, np.ndarray]:
        spread = m.T @ m / len(m) + np.tensordot(cov.weights.mean(0), cov.table, 1)
        return np.zeros((m.shape[1],) * 2), spread + 1e-6 * np.eye(m.shape[1])

    with patch.object(program.dynamics, "learn", forget):
        yield


@contextmanager
def without_predictive() -> Iterator[None]:
    with patch.object(FactorSite, "_predictive", lambda self, *_: self.P):
        yield


@contextmanager
def with_the_leak() -> Iterator[None]:
    with patch.object(FactorSite, "_start_heads", _without_fall(FactorSite._start_heads)):
        yield


def _without_fall(original: Callable[..., None]) -> Callable[..., None]:
    return lambda self, curve, without, fall=None: original(self, curve, without)


@contextmanager
def without_directions() -> Iterator[None]:
    def evenly(windows: Any, w: np.ndarray, *_: Any) -> Any:
        return program.directions.Sight(windows, w)

    with patch.object(program.directions, "look", evenly):
        yield


PARTS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "everything": (nullcontext, {}),
    "dynamics off": (without_dynamics, {}),
    "sensor heads off": (
        lambda: without_candidates(
            "alone linear", "alone pchip", "alone kriged", "shared+pchip", "shared+kriged"
        ),
        {},
    ),
    "site head off": (lambda: without_candidates("site", "site+pchip"), {}),
    "boosted head off": (nullcontext, {"effort": "quick"}),
    "predictive step off": (without_predictive, {}),
    "readings leak to their neighbours": (with_the_leak, {}),
    "weights by direction off": (without_directions, {}),
    "transformation off": (nullcontext, {"transformation": "none"}),
    "season off": (nullcontext, {"season": 0}),
    "guard off, rank free": (nullcontext, {"max_exposure": 1.0}),
    "nothing shared: each site alone": (nullcontext, {"max_exposure": 1e-6}),
    "selection off": (
        nullcontext,
        {"transformation": "none", "season": 0, "rank": 5, "length": 3.0, "noise": 0.1},
    ),
}


def main() -> None:
    print("| part | " + " | ".join(f"{d.split('_')[0]} {p} {r}" for d, p, r in CELLS) + " |")
    print("|" + "---|" * (len(CELLS) + 1))
    base: list[float] = []
    for name, (change, options) in PARTS.items():
        cells = []
        for number, (data, pattern, rate) in enumerate(CELLS):
            with change():
                mae = results.row(data, pattern, rate, 0, options, False)["mae"]
            if name == "everything":
                base.append(mae)
            cells.append(f"{mae:.4g} ({100 * (mae / base[number] - 1):+.1f} %)")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
