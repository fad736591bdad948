"""``audit``: run a configuration, look on, and attack what was seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import chi2
from threadpoolctl import threadpool_limits

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
from flfl.audit.report import Check, Finding, Report, read
from flfl.audit.view import Array, Case, offsets_of, watch
from flfl.errors import InputError, nearest
from flfl.estimators.owners import Sites, resolve_sensors
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.methods import create
from flfl.model import loadings
from flfl.paper.estimator import PaperFLFL
from flfl.paper.objective import Weights
from flfl.paper.scaling import Scaling
from flfl.protocol.added_error import read_at_most
from flfl.protocol.network import Network, posterior

Tell = Callable[[str], None]

COORDINATOR = "the coordinator"
EVERYBODY = "everybody else together"
ALL_BUT_ONE = "somebody who knows all but one reading"
PLAIN_ROUNDS = 40
"""Rounds of the paper's run unless asked otherwise: the first few are all that the attack needs."""


class Attack(NamedTuple):
    """One attack; ``surprise`` says that it is after what only the one reading tells.

    ``run`` guesses from the messages or, if its second argument is true, from the copies.
    """

    name: str
    adversary: str
    run: Callable[[Case, bool], Guess]
    surprise: bool = False


ATTACKS = (
    Attack("slot by slot", COORDINATOR, gaussian.by_slot),
    Attack("with memory", COORDINATOR, gaussian.with_memory),
    Attack("heavy-tailed", COORDINATOR, gaussian.heavy_tailed),
    Attack("known sample", COORDINATOR, known_sample.run),
    Attack("components", COORDINATOR, components.run),
    Attack("refits", COORDINATOR, refits.run),
    Attack("everything else", EVERYBODY, everything_else.everybody),
    Attack("all but one reading", ALL_BUT_ONE, everything_else.all_but_one, surprise=True),
)
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
    readings : time x sensor, NaN = missing
    sensors, sites : as in :func:`~flfl.recover`
    disclosure : ``"sums"`` for the default method, ``"plain"`` for the paper's plain uploads
    nights : a second run gets its last slots in so many stretches; 0 for no second run
    attacks : names; all by default
    progress : is told what is being done, in words
    settings : of the method, such as ``added_error=0.5``

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = rng.standard_normal((200, 6)) + rng.standard_normal((200, 1)).cumsum(axis=0)
    >>> report = audit(table, attacks=["slot by slot", "everything else"])
    >>> [one.name for one in report.findings], report.bound, report.failed
    (['slot by slot', 'everything else'], 0.5, False)
    """
    start = time.perf_counter()
    known = {one.name: one for one in ATTACKS}
    for name in attacks or ():
        if name not in known:
            raise InputError(f"there is no attack {name!r}", remedy=nearest(name, known))
    if disclosure not in ("sums", "plain"):
        raise InputError(f"unknown disclosure {disclosure!r}", remedy="Use sums or plain")
    table = readings if isinstance(readings, Table) else from_frame(readings)
    network = resolve_sensors(table.sensor_ids, sensors, sites)
    given = {"random_state": seed} | settings
    create("flfl-paper" if disclosure == "plain" else "flfl", **given)  # refuses unknown settings
    tell = progress or (lambda _: None)
    with threadpool_limits(limits=1):
        if disclosure == "plain":
            report = _plain(table.values, network, given, tell)
        else:
            chosen = [known[name] for name in attacks or known]
            report = _sums(table.values, network, given, nights, chosen, tell)
    return replace(report, seconds=round(time.perf_counter() - start, 2))


def _plain(
    values: pd.DataFrame, sensors: Sensors, settings: Mapping[str, Any], tell: Tell
) -> Report:
    """Run the paper's method and compute the readings from what its coordinator was sent."""
    tell("running the paper's method")
    model = PaperFLFL(**{"rounds": PLAIN_ROUNDS, **settings})
    seen = plain_inversion.Recorder()
    model.fit(values, sensors=sensors, witness=seen)
    tell("attacking: plain inversion")
    weights = Weights(model.ridge, model.spatial_weight, model.temporal_weight)
    raw = values.to_numpy(dtype=float).T
    raw = raw[~np.isnan(raw).all(axis=1)]
    found = plain_inversion.score(
        plain_inversion.invert(seen, weights), Scaling.fit(raw).apply(raw)
    )
    finding = Finding("plain inversion", COORDINATOR, found["exposed"], found["guessing"])
    n_sites = len(set(model.partition_.sites))
    return Report([finding], "plain", n_sites, len(raw), notes=model.traffic_.notes)


def _sums(
    values: pd.DataFrame,
    sensors: Sensors,
    settings: Mapping[str, Any],
    nights: int,
    attacks: Sequence[Attack],
    tell: Tell,
) -> Report:
    """Run the default method once and, if asked, again night by night; attack and check both."""
    tell("running the network")
    model, case = watch(values, sensors, **settings)
    report = Report(
        [], "sums", len(set(model.partition_.sites)), values.shape[1], nights=nights,
        added_error=model.added_error, share=model.share, secure=model.secure_,
        notes=model.traffic_.notes,
    )  # fmt: skip
    if case is None:
        return report
    findings, checks = attacked(case, attacks, tell), check(case)
    if nights:
        tell(f"running the network over {nights} nights")
        suffix, (_, later) = (
            f" ({nights} nights)",
            watch(values, sensors, nights=nights, **settings),
        )
        assert later is not None
        nightly = [a._replace(name=a.name + suffix) for a in attacks if a.name in NIGHTLY]
        findings += attacked(later, nightly, tell)
        checks += [replace(one, name=one.name + suffix) for one in check(later)]
    bound = bound_of(model.added_error, case.network)
    return replace(report, findings=findings, checks=checks, bound=bound, case=case)


def bound_of(added_error: float | str, network: Network) -> float:
    """R^2 of a surprise that a copy shows in the mean: the setting's or, in units, the worst."""
    if not isinstance(added_error, str):
        return read_at_most(float(added_error))
    sent = network.known.any(axis=1)
    sigma2 = network.sigma2[sent].max(axis=1, initial=0.0) * network.scale**2
    error2 = network.error[sent] ** 2
    return float((error2 / np.maximum(error2 + sigma2, 1e-300)).max(initial=0.0))


def attacked(case: Case, attacks: Sequence[Attack], tell: Tell) -> list[Finding]:
    """Every attack on the messages, beside the same on the copies."""
    # Whoever has the copies can do what everybody else does, so that counts as read from them.
    limit = everything_else.everybody(case, True).value
    heard = received(case, False)
    curves, volatile = heard.P @ heard.factors().T, scoring.volatile(case)
    findings = []
    for name, adversary, run, surprise in attacks:
        tell(f"attacking: {name}")
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
            name,
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


ROUNDING = 1e-6
"""The sums travel in fixed point of 2^-30."""
EQUAL = 0.95
"""Share of a sensor's loadings that must be those of its copies. A few may lie on the edge
between two steps of the rounding."""
CHANCE = 1e-6
"""How often noise as it should be is taken for too little."""
ALIKE = 0.3
"""Correlation of two sensors' noise, or of one's noise from slot to slot, that is not chance."""


def check(case: Case) -> list[Check]:
    """The assumptions of the proof that nobody learns more than the copies.

    All that left is a function of the copies, and the copies hold the noise that was declared.
    Where both hold, no attack on the messages can beat an attack on the copies.
    """
    return [
        Check("sums follow from the copies", tuple(_wrong_sums(case))),
        Check("loadings follow from the copies", tuple(_wrong_loadings(case))),
        Check("copies hold the declared noise", tuple(_too_quiet(case))),
        Check("noise is not used twice", tuple(_shared_noise(case))),
    ]


def _wrong_sums(case: Case) -> list[str]:
    net = case.network
    off = np.abs(net.z - loadings.released(case.copies, net.weights, net.phi, net.numbers))
    bad = int((off > ROUNDING * max(float(np.abs(net.z).max()), 1.0)).sum())
    return [f"{bad} released numbers are not those of the copies"] if bad else []


def _wrong_loadings(case: Case) -> list[str]:
    """The sites' part of each round again, from their copies."""
    same = np.ones((len(case.refits), len(case.ids)))
    for n, refit in enumerate(case.refits):
        net, N = refit.network, refit.network.n_slots
        stored, J = case.stored[: len(net.r), :N], net.known.astype(float)
        C = J * np.nan_to_num((stored - offsets_of(net, case.stored, net)) / net.scale)
        post, _ = posterior(net)
        P, r = loadings.fit_loadings(C, J, net.sigma2, post, net.r)
        P, _ = loadings.rounded(P, r, J, net.sigma2, post)
        answered = np.isfinite(refit.P).all(axis=1)
        equal = np.isclose(P, refit.P, rtol=1e-9).mean(axis=1)
        same[n, : len(P)] = np.where(answered, equal, 1.0)
    share = same.mean(axis=0) if len(same) else np.ones(same.shape[1])
    return [f"{case.ids[i]}: {share[i]:.0%} of them" for i in np.flatnonzero(share < EQUAL)]


def _noise(case: Case) -> tuple[Array, Array]:
    """The noise of each copy in units of its declared size (M, N), and 1 where there is one."""
    net = case.network
    at = net.known & case.known & (net.sigma2 > 0)
    size = np.sqrt(np.where(at, net.sigma2, 1.0))
    return np.where(at, (case.copies - case.clean) / size, 0.0), at.astype(float)


def _too_quiet(case: Case) -> list[str]:
    """A limited reading has more error than its noise, never less."""
    noise, at = _noise(case)
    n, square = at.sum(axis=1), (np.minimum(noise**2, 25.0)).sum(axis=1)
    least = chi2.ppf(CHANCE / max(len(n), 1), np.maximum(n, 1))
    return [
        f"{case.ids[i]}: {np.sqrt(square[i] / n[i]):.2f} of what was declared"
        for i in np.flatnonzero((n >= 10) & (square < 0.97 * least))
    ]


def _shared_noise(case: Case) -> list[str]:
    X, J = _noise(case)
    # Limited readings have errors of their own.
    X, J = np.where(np.abs(X) < 4, X, 0.0), np.where(np.abs(X) < 4, J, 0.0)
    ids = case.ids
    alike = np.triu(_correlations(X, X, J, J) > ALIKE, 1)
    later = np.diag(_correlations(X[:, 1:], X[:, :-1], J[:, 1:], J[:, :-1]))
    return [
        *(f"{ids[i]} and {ids[j]} have the same noise" for i, j in np.argwhere(alike)),
        *(
            f"{ids[i]}: its noise is the same from slot to slot"
            for i in np.flatnonzero(later > ALIKE + 0.2)
        ),
    ]


def _correlations(X: Array, Y: Array, J: Array, K: Array) -> Array:
    power = np.sqrt(np.maximum((X**2) @ K.T, 1e-12) * np.maximum(J @ (Y**2).T, 1e-12))
    return np.where(J @ K.T >= 100, np.abs(X @ Y.T) / power, 0.0)
