"""``audit``: run a configuration, look on, and attack what was seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from flfl.audit.attack import (
    ALL_BUT_ONE,
    COORDINATOR,
    EVERYBODY,
    Array,
    Attack,
    Case,
    Finding,
    Guess,
    close,
    more_than,
    read,
    slow,
    worst_and_median,
)
from flfl.audit.attacks import components, everything_else, gaussian, known_sample, refits
from flfl.audit.checks import check
from flfl.audit.plain import audit_plain
from flfl.audit.report import Report
from flfl.audit.view import watch
from flfl.errors import InputError
from flfl.estimators.flfl import FLFL
from flfl.estimators.owners import Sites, resolve_sensors
from flfl.io.read import from_frame
from flfl.io.sensors import Sensors
from flfl.io.table import Table
from flfl.paper.estimator import PaperFLFL
from flfl.protocol.guarantee import read_at_most
from flfl.protocol.public import Network

Say = Callable[[str], None]

MODEL = "the public model: gaps, loadings, variances, dynamics"
EVERYBODY_ATTACK = Attack(
    "everything else",
    EVERYBODY,
    "all other sensors' copies and clean readings, and how the residual behaves in time",
    everything_else.everybody,
)
ATTACKS: tuple[Attack, ...] = (
    Attack("slot by slot", COORDINATOR, MODEL, gaussian.by_slot),
    Attack(
        "with memory",
        COORDINATOR,
        f"{MODEL}; and how every residual behaves in time",
        gaussian.with_memory,
    ),
    Attack(
        "heavy-tailed",
        COORDINATOR,
        f"{MODEL}; and that residuals are Student-t",
        gaussian.heavy_tailed,
    ),
    Attack(
        "known sample",
        COORDINATOR,
        f"{MODEL}; and half of the sensor's residuals, to read the other half",
        known_sample.run,
    ),
    Attack("components", COORDINATOR, "nothing but the sums", components.run),
    Attack("refits", COORDINATOR, f"{MODEL}; and the loadings of every round", refits.run),
    EVERYBODY_ATTACK,
    Attack(
        "all but one reading",
        ALL_BUT_ONE,
        "all other clean readings, the sensor's own included",
        everything_else.all_but_one,
        surprise=True,
    ),
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
    progress: Say | None = None,
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
    table = readings if isinstance(readings, Table) else from_frame(readings)
    network = resolve_sensors(table.sensor_ids, sensors, sites)
    say = progress or _silence
    settings = {name: value for name, value in settings.items() if value is not None}
    settings["random_state"] = seed
    with threadpool_limits(limits=1):
        if disclosure == "plain":
            _check_settings(settings, PaperFLFL)
            report = audit_plain(table.values, network, settings, say)
        elif disclosure == "sums":
            _check_settings(settings, FLFL)
            report = _sums(table.values, network, settings, nights, seed, attacks, say)
        else:
            raise InputError(
                f"unknown disclosure {disclosure!r}", where="disclosure", remedy="Use sums or plain"
            )
    return replace(report, seconds=time.perf_counter() - start)


def _sums(
    values: pd.DataFrame,
    sensors: Sensors,
    settings: Mapping[str, Any],
    nights: int,
    seed: int,
    names: Sequence[str] | None,
    say: Say,
) -> Report:
    chosen = _chosen(names)
    say("running the network")
    model, view, truth = watch(values, sensors, **settings)
    report = Report(
        [], "sums", len(model.partition_.members), values.shape[1],
        added_error=model.added_error, share=model.share, secure=model.secure_,
        notes=model.traffic_.notes,
    )  # fmt: skip
    if view is None or truth is None:
        return report
    case = Case(view, truth, seed)
    findings = attacked(case, chosen, say)
    checks = check(case)
    if nights:
        say(f"running the network over {nights} nights")
        _, view, truth = watch(values, sensors, nights=nights, **settings)
        assert view is not None
        assert truth is not None
        later = Case(view, truth, seed)
        nightly = [one for one in chosen if one.name in NIGHTLY]
        findings += attacked(later, nightly, say, f" ({nights} nights)")
        checks += [replace(one, name=f"{one.name} ({nights} nights)") for one in check(later)]
    bound = bound_of(model.added_error, case.view.network)
    return replace(report, findings=findings, checks=checks, bound=bound, nights=nights, case=case)


def bound_of(added_error: float | str, network: Network) -> float:
    """R^2 of a surprise that a copy shows in the mean: the setting's or, in units, the worst."""
    if not isinstance(added_error, str):
        return read_at_most(float(added_error))
    speaks = network.known.any(axis=1)
    sigma2 = network.sigma2[speaks].max(axis=1, initial=0.0) * network.scale**2
    error2 = network.error[speaks] ** 2
    return float((error2 / np.maximum(error2 + sigma2, 1e-300)).max(initial=0.0))


def attacked(case: Case, attacks: Sequence[Attack], say: Say, suffix: str = "") -> list[Finding]:
    """Every attack on the messages, beside the same on the copies."""
    limit = EVERYBODY_ATTACK.run(case, True)
    findings = []
    for one in attacks:
        say(f"attacking: {one.name}{suffix}")
        start = time.perf_counter()
        found = score(case, one, limit)
        seconds = time.perf_counter() - start
        findings.append(replace(found, name=one.name + suffix, seconds=seconds))
    return findings


def score(case: Case, attack: Attack, limit: Guess) -> Finding:
    """What one attack reads.

    Parameters
    ----------
    limit : what everybody else together reads from the copies. Whoever has the copies can do that
        as well, so it counts as read from them.
    """
    mine, its = attack.run(case, False), attack.run(case, True)
    wanted = case.wanted.surprise if attack.surprise else case.wanted.residual
    at = case.view.network.known & case.truth.known & np.isfinite(mine.value)
    by_sensor = read(wanted, mine.value, at)
    there = at & case.volatile
    slow_truth, enough = slow(wanted, at)
    slow_mine, _ = slow(np.nan_to_num(mine.value), at)
    others = [its] if attack.surprise else [its, limit]
    copies = np.fmax.reduce([read(wanted, g.value, at & np.isfinite(g.value)) for g in others])
    excess, sensor = _excess(case, wanted, mine, others, at)
    worst, median = worst_and_median(by_sensor)
    top, middle = worst_and_median(read(wanted, mine.value, there))
    slow_worst, slow_median = worst_and_median(read(slow_truth, slow_mine, enough))
    copies_worst, copies_median = worst_and_median(copies)
    return Finding(
        attack.name, attack.adversary, attack.knows,
        residual_read_max=worst, residual_read_median=median,
        worst_sensor=None if worst is None else case.truth.ids[int(np.nanargmax(by_sensor))],
        volatile_max=top, volatile_median=middle, slow_max=slow_worst, slow_median=slow_median,
        copies_max=copies_worst, copies_median=copies_median, excess=excess, excess_sensor=sensor,
        readings_exposed=close(case, mine.base + np.nan_to_num(mine.value), at),
        guessing_exposes=close(case, case.picture(case.release)[1], at),
    )  # fmt: skip


def _excess(
    case: Case, wanted: Array, mine: Guess, others: Sequence[Guess], at: np.ndarray
) -> tuple[float, str | None]:
    """The most by which the messages beat the copies beyond four standard errors, and at whom."""
    over = np.full(len(at), np.inf)
    for other in others:
        both = at & np.isfinite(other.value)
        more, error = more_than(wanted, mine.value, np.nan_to_num(other.value), both)
        over = np.minimum(over, np.where(both.sum(axis=1) >= 100, more - 4 * error, 0.0))
    worst = int(np.argmax(over))
    return max(float(over[worst]), 0.0), case.truth.ids[worst] if over[worst] > 0 else None


def _chosen(names: Sequence[str] | None) -> list[Attack]:
    if names is None:
        return list(ATTACKS)
    known = {one.name: one for one in ATTACKS}
    lost = [name for name in names if name not in known]
    if lost:
        raise InputError(
            f"there is no attack {lost[0]!r}", where="attacks", remedy=f"Use {', '.join(known)}"
        )
    return [known[name] for name in names]


def _check_settings(settings: Mapping[str, Any], method: type) -> None:
    known = method().get_params()
    lost = [name for name in settings if name not in known]
    if lost:
        raise InputError(
            f"this method has no setting {lost[0]!r}", remedy=f"Use {', '.join(sorted(known))}"
        )


def _silence(_: str) -> None:
    """Say nothing."""
