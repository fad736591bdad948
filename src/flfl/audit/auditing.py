"""``audit``: run a configuration, look on, and attack what was seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from flfl.audit.attack import QUICK, Attack, Case, Effort, Finding
from flfl.audit.plain import PLAIN, PlainCase, watch_plain
from flfl.audit.registry import ATTACKS
from flfl.audit.report import Report
from flfl.audit.view import Array, listen
from flfl.data.read import from_frame
from flfl.data.sensors import Sensors
from flfl.data.table import Table
from flfl.errors import InputError
from flfl.estimators.base import Sites, resolve_sensors
from flfl.estimators.dynamic import FLFL
from flfl.estimators.paper import PaperFLFL

Say = Callable[[str], None]


def audit(
    readings: pd.DataFrame | Array | Table,
    sensors: Sensors | pd.DataFrame | None = None,
    *,
    sites: Sites | None = None,
    disclosure: str = "sums",
    quick: bool = False,
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
    quick : shorter stretches, fewer coalitions, no rerun
    attacks : names from the registry; all by default
    progress : is told what is being done, in words
    settings : of the method, such as ``max_exposure=0.3``

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> table = rng.standard_normal((300, 12)) + rng.standard_normal((300, 1)).cumsum(axis=0)
    >>> report = audit(table, quick=True, attacks=["masks-known"])
    >>> [one.name for one in report.findings][0], report.private
    ('masks-known (Gaussian)', True)
    """
    start = time.perf_counter()
    table = readings if isinstance(readings, Table) else from_frame(readings)
    network = resolve_sensors(table.sensor_ids, sensors, sites)
    effort = QUICK if quick else Effort()
    say = progress or _silence
    settings = {name: value for name, value in settings.items() if value is not None}
    settings["random_state"] = seed
    with threadpool_limits(limits=1):
        if disclosure == "plain":
            return _plain(table.values, network, settings, effort, seed, say, start)
        if disclosure != "sums":
            raise InputError(
                f"unknown disclosure {disclosure!r}", where="disclosure", remedy="Use sums or plain"
            )
        return _sums(table.values, network, settings, effort, seed, attacks, say, start)


def _sums(
    values: pd.DataFrame,
    sensors: Sensors,
    settings: Mapping[str, Any],
    effort: Effort,
    seed: int,
    names: Sequence[str] | None,
    say: Say,
    start: float,
) -> Report:
    _check(settings, FLFL)
    chosen = _chosen(names)
    say("running the network")
    model, view = listen(values, sensors, **settings)
    secure = bool(getattr(model, "secure_", False))
    findings: list[Finding] = []
    if view is not None:
        case = Case(view, model, values, sensors, settings, secure, effort, seed)
        for attack in chosen:
            say(f"attack: {attack.name}")
            findings += attack(case)
    return Report(
        findings=findings,
        disclosure="sums",
        max_exposure=float(model.max_exposure),
        secure=secure,
        learned=model.projection == "learned",
        n_sites=len(model.partition_.site_names),
        n_sensors=values.shape[1],
        rank=0 if view is None else view.m.shape[1],
        rounds=model.n_rounds_,
        numbers_per_reading=0.0 if view is None else view.numbers_per_reading(),
        computed_exposure=0.0 if view is None else float(view.exposure.max()),
        seconds=time.perf_counter() - start,
        notes=tuple(model.ledger_.notes),
        view=view,
    )


def _plain(
    values: pd.DataFrame,
    sensors: Sensors,
    settings: Mapping[str, Any],
    effort: Effort,
    seed: int,
    say: Say,
    start: float,
) -> Report:
    _check(settings, PaperFLFL)
    say("running the network with plain uploads")
    case: PlainCase = watch_plain(values, sensors, settings, effort, seed)
    findings: list[Finding] = []
    for attack in PLAIN:
        say(f"attack: {attack.name}")
        findings += attack(case)
    return Report(
        findings=findings,
        disclosure="plain",
        max_exposure=1.0,
        secure=False,
        n_sites=len(case.model.partition_.site_names),
        n_sensors=values.shape[1],
        rank=case.rank,
        rounds=case.model.n_rounds_,
        numbers_per_reading=case.model.ledger_.numbers / max(int(values.notna().sum().sum()), 1),
        computed_exposure=1.0,
        seconds=time.perf_counter() - start,
        notes=tuple(case.model.ledger_.notes),
    )


def _chosen(names: Sequence[str] | None) -> list[Attack]:
    known = {attack.name: attack for attack in ATTACKS}
    for name in names or ():
        if name not in known:
            raise InputError(
                f"unknown attack {name!r}", where="attacks", remedy=f"Use {', '.join(known)}"
            )
    return list(ATTACKS) if names is None else [known[name] for name in names]


def _check(settings: Mapping[str, Any], method: type) -> None:
    """A setting that this method does not have is the user's mistake, not ours."""
    known = set(method().get_params())
    for name in settings:
        if name not in known:
            raise InputError(
                f"{method.__name__} has no setting {name!r}",
                where=name,
                remedy="Leave it out, or choose the other disclosure",
            )


def _silence(words: str) -> None:
    """Nobody asked."""
