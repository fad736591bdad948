"""How much an attack reads, and what an audit concludes; ``docs/audit.md`` explains both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from flfl import constants
from flfl.audit.view import Array, Case, Mask

SLOW = 24
"""Slots of a mean that counts as slow; fewer in tables of less than 600 slots."""


@dataclass(frozen=True)
class Finding:
    """What one attack read: shares of readings, and R^2 of the worst and the median sensor; from
    the ``copies`` too. ``excess``: by how much the messages beat them beyond statistical error."""

    name: str
    adversary: str
    readings_exposed: float | None = None
    guessing_exposes: float | None = None
    residual_read_max: float | None = None
    residual_read_median: float | None = None
    volatile_max: float | None = None
    volatile_median: float | None = None
    slow_max: float | None = None
    slow_median: float | None = None
    copies_max: float | None = None
    copies_median: float | None = None
    worst_sensor: str | None = None
    excess: float = 0.0
    excess_sensor: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """The findings of an audit. ``checks``: what is wrong, by assumption of the proof. ``bound``:
    R^2 of a surprise that its copy shows, 1 / (1 + beta^2). ``case``: None if nothing was shared.
    """

    findings: Sequence[Finding]
    disclosure: str
    sites: int
    sensors: int
    bound: float = 1.0
    added_error: float | str = 0.0
    share: float = 0.0
    secure: bool = False
    nights: int = 0
    checks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seconds: float = 0.0
    notes: Sequence[str] = ()
    case: Case | None = field(default=None, repr=False)

    @property
    def beaten(self) -> list[Finding]:
        """Attacks that read more from the messages than from the copies."""
        return [one for one in self.findings if one.excess > constants.AUDIT_TOLERANCE]

    @property
    def failed(self) -> bool:
        """Whether something left that is not in the copies, or the copies are not noisy enough."""
        return bool(self.beaten) or any(self.checks.values())

    @property
    def verdict(self) -> str:
        """One or two sentences for a person."""
        if self.disclosure == "plain":
            worst = max((one.readings_exposed or 0.0 for one in self.findings), default=0.0)
            return f"EXPOSED: plain uploads give {worst:.0%} of the readings to the coordinator."
        if not self.findings:
            return "Nothing was shared, so there is nothing to read."
        wrong = [f"{name}: no ({'; '.join(bad[:3])})" for name, bad in self.checks.items() if bad]
        for one in self.beaten:
            read_more = f"{one.name} reads {one.excess:.2f} more of {one.excess_sensor}"
            wrong.append(f"{read_more} from the messages than from the copies")
        if wrong:
            return f"FAILED: {'. '.join(wrong)}."
        by_read = sorted(self.findings, key=lambda one: one.residual_read_max or 0.0)
        best = {one.adversary: one for one in by_read}
        measured = "; ".join(
            f"{name} {one.residual_read_max or 0:.2f} of the worst sensor's and"
            f" {one.residual_read_median or 0:.2f} of the median sensor's"
            for name, one in best.items()
        )
        return (
            "All that left follows from the noisy copies, which hold the noise that was declared,"
            " and no attack reads more from it than from them. Measured (R^2 of the residual, best"
            f" attack): {measured}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {key: value for key, value in vars(self).items() if key not in ("case", "findings")}
        return plain | {
            "attacks": [asdict(one) for one in self.findings],
            "checks": [{"name": name, "wrong": list(bad)} for name, bad in self.checks.items()],
            "failed": self.failed,
            "verdict": self.verdict,
        }


def read(truth: Array, guess: Array, at: Mask, fewest: int = constants.AUDIT_FEWEST) -> Array:
    """R^2 of each row's guess (M,), the square of a positive correlation; NaN for too few guesses.

    Examples
    --------
    >>> truth, at = np.array([[1.0, -1.0, 2.0, 9.0]]), np.array([[True, True, True, False]])
    >>> read(truth, 0.1 * truth, at, 3), read(truth, -truth, at, 3)
    (array([1.]), array([0.]))
    """
    return np.where(at.sum(axis=1) >= fewest, _r2(_sums(truth, guess, at)), np.nan)


def _sums(truth: Array, guess: Array, at: Mask) -> Array:
    """Count, sums, squares and products of each row (6, M)."""
    t, g = np.where(at, truth, 0.0), np.where(at, guess, 0.0)
    return np.stack([at.sum(1), t.sum(1), g.sum(1), (t * t).sum(1), (g * g).sum(1), (t * g).sum(1)])


def _r2(sums: Array) -> Array:
    _, t, g, tt, gg, tg = sums / np.maximum(sums[0], 1.0)
    # What does not vary says nothing: its variance counts as infinite.
    vt, vg = (np.where(sq - m**2 > 1e-9 * sq, sq - m**2, np.inf) for m, sq in ((t, tt), (g, gg)))
    return np.asarray(np.maximum(tg - t * g, 0.0) ** 2 / vt / vg)


def excess(truth: Array, guess: Array, others: Sequence[Array], at: Mask) -> Array:
    """By how much a guess beats all others in R^2 beyond four standard errors (M,), which come
    from leaving out groups of neighbouring slots."""
    groups = constants.AUDIT_GROUPS
    edges = np.linspace(0, truth.shape[1], groups + 1).astype(int)
    over = np.full(len(at), np.inf)
    for other in others:
        both = at & np.isfinite(other)
        mine, its = (
            np.stack(
                [_sums(truth[:, a:b], g[:, a:b], both[:, a:b]) for a, b in pairwise(edges)], -1
            )
            for g in (guess, np.nan_to_num(other))
        )
        more = _r2(mine.sum(-1)) - _r2(its.sum(-1))
        left = _r2(mine.sum(-1)[..., None] - mine) - _r2(its.sum(-1)[..., None] - its)
        error = np.sqrt((groups - 1) * left.var(axis=1))
        over = np.minimum(over, np.where(both.sum(axis=1) >= 100, more - 4 * error, 0.0))
    return over


def slow(X: Array, at: Mask) -> tuple[Array, Mask]:
    """Means over 24 slots of the entries that count (M, blocks), and where there are any.

    Examples
    --------
    >>> slow(np.array([[1.0, 3.0, 7.0, 9.0]]), np.array([[True, True, True, False]]))
    (array([[2., 7.]]), array([[ True,  True]]))
    """
    edges = np.arange(0, X.shape[1], int(np.clip(X.shape[1] // 25, 2, SLOW)))
    n = np.add.reduceat(at, edges, axis=1, dtype=float)
    return np.add.reduceat(np.where(at, X, 0.0), edges, axis=1) / np.maximum(n, 1), n > 0


def volatile(case: Case) -> Mask:
    """The tenth of the slots with the largest residuals, each in units of its sensor's (N,)."""
    square, J = case.wanted.residual**2, case.known
    spread2 = np.maximum(square.sum(axis=1) / np.maximum(J.sum(axis=1), 1), 1e-24)
    size = (square / spread2[:, None]).sum(axis=0) / np.maximum(J.sum(axis=0), 1)
    return np.asarray(size >= np.quantile(size, 0.9))


def close(case: Case, guess: Array, at: Mask) -> float | None:
    """Share of the readings that a guess (M, N) in the network's units comes close to."""
    spread = [np.std(row[k]) if k.any() else 1.0 for row, k in zip(case.raw, at, strict=True)]
    near = np.maximum(constants.AUDIT_CLOSE * np.array(spread), 1e-14)[:, None]
    miss = np.abs(case.to_raw(np.where(at, guess, 0.0)) - case.raw)
    return float((miss <= near)[at].mean()) if at.any() else None


def summary(name: str, scores: Array) -> dict[str, Any]:
    """The worst and the median of the sensors that have a score, for a :class:`Finding`."""
    found = scores[np.isfinite(scores)]
    most, middle = (float(found.max()), float(np.median(found))) if len(found) else (None, None)
    return {f"{name}_max": most, f"{name}_median": middle}
