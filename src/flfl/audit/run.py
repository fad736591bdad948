"""``audit``: run a configuration, look on, and attack what was seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2
from threadpoolctl import threadpool_limits

from flfl import constants
from flfl.audit import report as scoring
from flfl.audit.attacks import (
    Guess,
    components,
    everything_else,
    gaussian,
    known_sample,
    plain_inversion,
    received,
    refits,
)
from flfl.audit.report import Finding, Report, read
from flfl.audit.view import Array, Case, Mask, offsets_of, watch
from flfl.errors import InputError, nearest
from flfl.estimators.owners import Sites, resolve_sensors
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.methods import create
from flfl.model import loadings
from flfl.paper.estimator import PaperFLFL
from flfl.paper.scaling import Scaling
from flfl.protocol.added_error import read_at_most
from flfl.protocol.network import Network

Tell = Callable[[str], None]

COORDINATOR = "the coordinator"
EVERYBODY = "everybody else together"
ALL_BUT_ONE = "somebody who knows all but one reading"
PLAIN_ROUNDS = 40
"""Rounds of the paper's run unless asked otherwise: the attack needs the first few."""

ATTACKS: dict[str, tuple[str, Callable[[Case, bool], Guess]]] = {
    "slot by slot": (COORDINATOR, gaussian.by_slot),
    "with memory": (COORDINATOR, gaussian.with_memory),
    "heavy-tailed": (COORDINATOR, gaussian.heavy_tailed),
    "known sample": (COORDINATOR, known_sample.run),
    "components": (COORDINATOR, components.run),
    "refits": (COORDINATOR, refits.run),
    "everything else": (EVERYBODY, everything_else.everybody),
    "all but one reading": (ALL_BUT_ONE, everything_else.all_but_one),
}
"""Adversary and attack: it guesses from the messages or, if told so, from the copies."""
NIGHTLY = ("slot by slot", "refits", "everything else", "all but one reading")
"""Attacks on a run that was made night by night."""


def audit(
    readings: pd.DataFrame | Array | Table,
    sensors: Sensors | pd.DataFrame | None = None,
    *,
    sites: Sites | None = None,
    disclosure: str = "sums",
    nights: int = 0,
    seed: int = 0,
    attacks: Sequence[str] | None = None,
    progress: Tell | None = None,
    **settings: Any,
) -> Report:
    """Attack a configuration on one's own readings.

    Parameters
    ----------
    readings : DataFrame, array or Table
        Time x sensor, NaN = missing.
    sensors : Sensors or DataFrame, optional
        Coordinates (and sites), one row for each sensor.
    sites : sequence, mapping or "each", optional
        Owner of each sensor, by column order or by sensor id.
    disclosure : {"sums", "plain"}
        The default method, or the paper's plain uploads.
    nights : int
        A second run gets its last slots in so many stretches; 0 for no second run.
    seed : int
        Of every random draw.
    attacks : sequence of str, optional
        Names of attacks; all by default.
    progress : callable, optional
        Is told what is being done, in words.
    **settings
        Of the method, such as ``added_error=0.5``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = rng.standard_normal((200, 6)) + rng.standard_normal((200, 1)).cumsum(axis=0)
    >>> report = audit(table, attacks=["slot by slot", "everything else"])
    >>> [one.name for one in report.findings], report.bound, report.failed
    (['slot by slot', 'everything else'], 0.5, False)
    """
    start, tell = time.perf_counter(), progress or (lambda _: None)
    programs = {"sums": "flfl", "plain": "flfl-paper"}
    for given, known in (([disclosure], list(programs)), (attacks or (), list(ATTACKS))):
        for name in set(given).difference(known):
            raise InputError(f"{name!r} is not known to the audit", remedy=nearest(name, known))
    table = readings if isinstance(readings, Table) else from_frame(readings)
    network = resolve_sensors(table.sensor_ids, sensors, sites)
    settings = {"random_state": seed} | settings
    create(programs[disclosure], **settings)  # refuses a setting that the method does not have
    with threadpool_limits(limits=1):
        if disclosure == "plain":
            report = _plain(table.values, network, settings, tell)
        else:
            report = _sums(table.values, network, settings, nights, attacks or tuple(ATTACKS), tell)
    return replace(report, seconds=round(time.perf_counter() - start, 2))


def _plain(
    values: pd.DataFrame, sensors: Sensors, settings: Mapping[str, Any], tell: Tell
) -> Report:
    """Run the paper's method and compute the readings from what its coordinator was sent."""
    tell("running the paper's method")
    given = {"rounds": PLAIN_ROUNDS, **settings, "rule": "paper"}
    model, seen = PaperFLFL(**given), plain_inversion.Recorder()
    model.fit(values, sensors=sensors, witness=seen)
    tell("attacking: plain inversion")
    raw = values.dropna(axis="columns", how="all").to_numpy(dtype=float).T
    guess = plain_inversion.invert(seen, model.setting_.weights)
    found = plain_inversion.score(guess, Scaling.fit(raw).apply(raw))
    finding = Finding("plain inversion", COORDINATOR, found["exposed"], found["guessing"])
    n_sites = len(set(model.partition_.sites))
    return Report([finding], "plain", n_sites, len(raw), notes=model.traffic_.notes)


def _sums(
    values: pd.DataFrame,
    sensors: Sensors,
    settings: Mapping[str, Any],
    nights: int,
    attacks: Sequence[str],
    tell: Tell,
) -> Report:
    """Run the default method once and, if asked, again night by night; attack and check both."""
    findings, checks, bound = list[Finding](), dict[str, list[str]](), 1.0
    tell("running the network")
    model, case = watch(values, sensors, **settings)
    if case is not None:
        findings, checks = attacked(case, attacks, tell), check(case)
        bound = bound_of(model.added_error, case.network)
    if case is not None and nights:
        tell(f"running the network over {nights} nights")
        suffix, later = f" ({nights} nights)", watch(values, sensors, nights=nights, **settings)[1]
        assert later is not None
        findings += attacked(later, [n for n in attacks if n in NIGHTLY], tell, suffix)
        checks |= {name + suffix: wrong for name, wrong in check(later).items()}
    return Report(
        findings, "sums", len(set(model.partition_.sites)), values.shape[1], bound,
        model.added_error, model.share, model.secure_, nights, checks,
        notes=model.traffic_.notes, case=case,
    )  # fmt: skip


def bound_of(added_error: float | str, network: Network) -> float:
    """R^2 of a surprise that a copy shows in the mean: the setting's or, in units, the worst."""
    if not isinstance(added_error, str):
        return read_at_most(float(added_error))
    sent = network.known.any(axis=1)
    sigma2 = network.sigma2[sent].max(axis=1, initial=0.0) * network.scale**2
    error2 = network.error[sent] ** 2
    return float((error2 / np.maximum(error2 + sigma2, 1e-300)).max(initial=0.0))


def attacked(case: Case, names: Sequence[str], tell: Tell, suffix: str = "") -> list[Finding]:
    """Every attack on the messages, beside the same on the copies."""
    # Whoever has the copies can do what everybody else does, so that counts as read from them.
    limit = everything_else.everybody(case, True).value
    heard = received(case, False)
    curves, volatile = heard.P @ heard.factors().T, scoring.volatile(case)
    findings = []
    for name in names:
        tell(f"attacking: {name}{suffix}")
        adversary, run = ATTACKS[name]
        surprise = adversary == ALL_BUT_ONE
        start = time.perf_counter()
        mine, its = run(case, False), run(case, True).value
        guess = np.nan_to_num(mine.value)
        wanted = case.wanted.surprise if surprise else case.wanted.residual
        at = case.network.known & case.known & np.isfinite(mine.value)
        others = [its] if surprise else [its, limit]
        copies = np.fmax.reduce([read(wanted, g, at & np.isfinite(g)) for g in others])
        by_sensor, over = read(wanted, guess, at), scoring.excess(wanted, guess, others, at)
        worst, most = int(np.nan_to_num(by_sensor, nan=-1.0).argmax()), int(over.argmax())
        slow_truth, enough = scoring.slow(wanted, at)
        finding = Finding(
            name + suffix,
            adversary,
            scoring.close(case, mine.base + guess, at),
            scoring.close(case, curves, at),
            worst_sensor=case.ids[worst] if np.isfinite(by_sensor[worst]) else None,
            excess=max(float(over[most]), 0.0),
            excess_sensor=case.ids[most] if over[most] > 0 else None,
            **scoring.summary("residual_read", by_sensor),
            **scoring.summary("volatile", read(wanted, guess, at & volatile)),
            **scoring.summary("slow", read(slow_truth, scoring.slow(guess, at)[0], enough)),
            **scoring.summary("copies", copies),
        )
        findings.append(replace(finding, seconds=time.perf_counter() - start))
    return findings


def check(case: Case) -> dict[str, list[str]]:
    """The assumptions of the proof that nobody learns more than the copies: all that left is a
    function of them, and they hold the declared noise."""
    net = case.network
    at = net.known & case.known & (net.sigma2 > 0)
    size = np.sqrt(np.where(at, net.sigma2, 1.0))
    noise = np.where(at, (case.copies - case.clean) / size, 0.0)
    off = np.abs(net.z - loadings.released(case.copies, net.weights, net.phi, net.numbers))
    bad = int((off > constants.AUDIT_ROUNDING * max(float(np.abs(net.z).max()), 1.0)).sum())
    return {
        "sums follow from the copies": [f"{bad} numbers do not"] if bad else [],
        "loadings follow from the copies": list(_wrong_loadings(case)),
        "copies hold the declared noise": list(_too_quiet(case.ids, noise, at)),
        "noise is not used twice": list(_shared_noise(case.ids, noise, at)),
    }


def _wrong_loadings(case: Case) -> Iterator[str]:
    """The sites' part of each round again, from their copies."""
    same = np.ones((len(case.refits) + 1, len(case.ids)))
    for n, (net, answer, _) in enumerate(case.refits):
        J, stored = net.known.astype(float), case.stored[: len(net.r), : net.n_slots]
        C = J * np.nan_to_num((stored - offsets_of(net, case.stored, net)) / net.scale)
        post = net.inferred.post
        P, r = loadings.fit_loadings(C, J, net.sigma2, post, net.r)
        P, _ = loadings.rounded(P, r, J, net.sigma2, post)
        equal = np.isclose(P, answer, rtol=1e-9).mean(axis=1)
        same[n, : len(P)] = np.where(np.isfinite(answer).all(axis=1), equal, 1.0)
    for i, share in enumerate(same[:-1].mean(axis=0) if len(same) > 1 else same[0]):
        if share < constants.AUDIT_EQUAL:
            yield f"{case.ids[i]}: {share:.0%} of them"


def _too_quiet(ids: Any, noise: Array, at: Mask) -> Iterator[str]:
    """A limited reading has more error than its noise, never less."""
    n, square = at.sum(axis=1), np.minimum(noise**2, 25.0).sum(axis=1)
    least = chi2.ppf(constants.AUDIT_CHANCE / max(len(n), 1), np.maximum(n, 1))
    for i in np.flatnonzero((n >= 10) & (square < 0.97 * least)):
        yield f"{ids[i]}: {np.sqrt(square[i] / n[i]):.2f} of what was declared"


def _shared_noise(ids: Any, noise: Array, at: Mask) -> Iterator[str]:
    # Limited readings have errors of their own.
    at = at & (np.abs(noise) < 4)
    X, J = np.where(at, noise, 0.0), at.astype(float)
    for i, j in np.argwhere(np.triu(_alike(X, X, J, J) > constants.AUDIT_ALIKE, 1)):
        yield f"{ids[i]} and {ids[j]} have the same noise"
    later = np.diag(_alike(X[:, 1:], X[:, :-1], J[:, 1:], J[:, :-1]))
    for i in np.flatnonzero(later > constants.AUDIT_ALIKE_LATER):
        yield f"{ids[i]}: its noise is the same from slot to slot"


def _alike(X: Array, Y: Array, J: Array, K: Array) -> Array:
    """Correlations of rows (M, M), 0 where fewer than 100 entries are known in both."""
    power = np.sqrt(np.maximum((X**2) @ K.T, 1e-12) * np.maximum(J @ (Y**2).T, 1e-12))
    return np.where(J @ K.T >= 100, np.abs(X @ Y.T) / power, 0.0)
