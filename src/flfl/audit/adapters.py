"""Attacks that are pure functions on arrays, put to a run: what each is given of the view."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flfl.audit import equations
from flfl.audit.attack import Against, Attack, Case, Finding, worst_and_median
from flfl.audit.attacks import (
    atoms,
    components,
    latent_vectors,
    masks_known,
    membership,
    who_observed,
    whole_numbers,
)
from flfl.audit.attacks.readouts import distinct_rounds
from flfl.audit.view import View, listen
from flfl.data.scaling import Scaling
from flfl.errors import FLFLError
from flfl.model.shared import dynamics, smoothers

Array = NDArray[np.float64]

_NAIVE_ROUNDS = 8
_MOST_UNKNOWNS = 1600
"""Latent numbers of the network beyond which the difference of rounds is not solved."""


def _components(case: Case, attack: Attack) -> list[Finding]:
    view = case.view
    news = np.where(view.J > 0, view.clipped, np.nan)
    rounds = np.stack([view.windows.per_slot(g) for g in distinct_rounds(view)])
    ways = {"one round": rounds[-1]}
    if len(rounds) > 1:
        ways["all rounds"] = rounds
    findings = []
    for name, sums in ways.items():
        found = components.components(sums, case.seed, len(news))
        scores = components.read_by_best(found, news)
        summed = worst_and_median(scores, view.names)
        findings.append(
            attack.finding(
                name,
                **summed,
                figures={"sensors_read_above_0.8": float((scores > 0.8).sum())},
                sentence=f"The component that fits best shows {summed['news_read_max']:.0%} of the"
                f" worst sensor's news, {summed['news_read_median']:.0%} of the median one's;"
                f" {int((scores > 0.8).sum())} sensors of {len(scores)} above 80%.",
            )
        )
    return findings


def _latent_vectors(case: Case, attack: Attack) -> list[Finding]:
    """Every p from the differences of rounds, then each sensor's readings from its refits."""
    view = case.view
    first, last = view.rounds[0], view.rounds[-1]
    if not np.allclose(first.B, last.B) or len(view.rounds) < 2:
        return [attack.finding(sentence="Needs one projection in all rounds; this run has more.")]
    if view.P.size > _MOST_UNKNOWNS:
        return [attack.finding(sentence="The network is too large for this attack.")]
    used = list(view.rounds[1:])[-3:]
    means = np.stack([one.m for one in used])
    factor = smoothers.smoother(view.J, view.length, view.noise)
    sums = np.stack([first.g, *(one.g for one in used)])
    asked = np.concatenate([np.zeros_like(means[:1]), means])
    P = latent_vectors.vectors_by_round(sums, asked, last.B, view.u, factor, view.windows)
    errors = latent_vectors.relative_errors(P[-1], used[-1].P, used[-1].m)
    spreads = np.stack([_spread(view, one.F, one.R) for one in used])
    guess = latent_vectors.read_from_refits(P, means, spreads, view.J, 1.0)
    curve = P[-1] @ means[-1].T
    scores = latent_vectors.news_read(guess, view.Y, curve, view.J)
    bound = latent_vectors.span_share(means, np.repeat(view.J[None], len(used), 0), view.news)
    found = worst_and_median(scores, view.names)
    return [
        attack.finding(
            **found,
            figures={
                "error_of_p": float(np.median(errors)),
                "refits_bound_max": float(bound.max()),
                "rounds": float(len(used)),
            },
            sentence=f"Latent vectors are found with a relative error of {np.median(errors):.0e};"
            f" what their refits say of the readings shows {found['news_read_max']:.0%} of the"
            f" worst sensor's news, {found['news_read_median']:.0%} of the median one's (no more"
            f" than {bound.max():.0%} could be shown).",
        )
    ]


def _spread(view: View, F: Array, R: Array) -> Array:
    """``sum_t J V_t`` of each sensor (M, k, k), from what is published."""
    cov = dynamics.published_covariances(view.A, view.S, F, R, view.w, view.gain, view.windows)
    return np.tensordot(view.J @ cov.weights, cov.table, 1)


def _whole_numbers(case: Case, attack: Attack) -> list[Finding]:
    view, slots = case.view, case.effort.slots
    system = equations.stretch(view, [view.rounds[-1]], masks_known.middle(view, slots), slots)
    prior = masks_known.fitted_prior(system)
    x = masks_known.guessed_news(system, prior, masks_known.gaussian(system, prior))
    news = masks_known.on_table(system, view, x)
    truth = np.where(np.isfinite(news), view.raw, np.nan)
    mean = view.to_raw(view.picture + np.nan_to_num(news))
    left = np.where(np.isfinite(truth), mean - truth, 0.0)
    count = np.maximum(np.isfinite(truth).sum(axis=1, keepdims=True), 1)
    sd = np.sqrt((left**2).sum(axis=1, keepdims=True) / count) + np.zeros(truth.shape)
    step = whole_numbers.resolution(view.raw)
    lower = min(0.0, float(np.nanmin(view.raw)))
    found = whole_numbers.score(mean, sd, truth, step, lower)
    factors = whole_numbers.on_the_grid(view.to_raw(view.picture), step, lower)
    guessed = whole_numbers.share_within(factors, truth)
    exposed = max(found["posterior"], found["not_negative"], found["whole"])
    return [
        attack.finding(
            readings_exposed=exposed,
            guessing_exposes=Against(found["guessing"], guessed),
            figures=found,
            sentence=f"Rounded to the instrument's steps, {exposed:.1%} of the readings are met;"
            f" naming each sensor's most frequent value meets {found['guessing']:.1%}, the"
            f" network's factors {guessed:.1%}.",
        )
    ]


def _who_observed(case: Case, attack: Attack) -> list[Finding]:
    view = case.view
    local, last = view.last("local"), view.last("window") or view.last("local")
    if local is None or last is None:
        return [attack.finding(judged=False, sentence="This run asked for no energies.")]
    B = view.rounds[-1].B
    turned = np.sqrt(view.guard_r)[:, None] * (B @ np.asarray(local.asked["turn"]))
    starts = view.windows.edges[:-1]
    observed = np.add.reduceat(view.J, starts, axis=1) > 0
    counts = np.add.reduceat(view.J.sum(axis=0), starts)
    found = who_observed.score(last.total["energy"], turned**2, counts, observed)
    told = ~observed.all(axis=1)
    area, plain = (
        float(np.median(found[name][told])) if told.any() else 0.5 for name in ("auc", "counts")
    )
    return [
        attack.finding(
            judged=False,
            figures={"auc_median": area, "auc_of_counts_alone": plain},
            sentence=f"Tells whether a sensor observed in a window with an area of {area:.2f} under"
            f" the curve (0.5 is chance; the network's counts alone: {plain:.2f}). Gaps count as"
            " public here.",
        )
    ]


def _membership(case: Case, attack: Attack) -> list[Finding]:
    """Two runs, each without one half of the sensors: everyone is once in and once out."""
    if not case.effort.reruns:
        return []
    Y = case.readings.to_numpy().T
    half = np.arange(len(Y)) % 2 == 0
    runs = []
    for inside in (half, ~half):
        try:
            view = listen(
                case.readings.loc[:, inside],
                case.sensors.subset(inside),
                to_the_end=False,
                **case.settings,
            )[1]
        except FLFLError as problem:
            return [attack.finding(judged=False, sentence=f"A run of one half failed: {problem}")]
        if view is None:
            return [
                attack.finding(judged=False, sentence="One half of the sensors shares nothing.")
            ]
        runs.append((Y[inside], Y[~inside], view.m))
    found = membership.pooled_score(runs)
    area = max(found.values())
    return [
        attack.finding(
            judged=False,
            figures={f"auc_{name}": value for name, value in found.items()},
            sentence=f"Tells members from others with an area of {area:.2f} under the curve (0.5 is"
            " chance). That a sensor takes part is not kept secret.",
        )
    ]


def _atoms(case: Case, attack: Attack) -> list[Finding]:
    values = case.readings.to_numpy().T
    values = values[~np.isnan(values).all(axis=1)]
    Z = Scaling.fit(values).apply(values)
    rank = min(10, len(Z), Z.shape[1])
    H, h = atoms.naive_run(Z, ~np.isnan(Z), rank, _NAIVE_ROUNDS, case.rng(attack.name))
    _, series = atoms.decode(H, h)
    found = (
        atoms.score(series, Z) if len(series) else {"exposed": 0.0, "guessing": 0.0, "atoms": 0.0}
    )
    return [
        attack.finding(
            judged=False,
            figures=found,
            sentence="Not what is sent: had the network asked for sums over the sensors that"
            f" observed each slot, {found['exposed']:.0%} of all readings would be known.",
        )
    ]


COMPONENTS = Attack(
    "components",
    "the coordinator",
    "nothing but the sums (independent component analysis of one round and of all)",
    _components,
)
LATENT_VECTORS = Attack(
    "latent-vectors",
    "the coordinator",
    "who observed when and every projection: p of each round from differences of rounds, then what"
    " its refits say",
    _latent_vectors,
)
WHOLE_NUMBERS = Attack(
    "whole-numbers",
    "the coordinator",
    "what masks-known does, and that readings are multiples of the instrument's step and not"
    " negative",
    _whole_numbers,
)
WHO_OBSERVED = Attack(
    "who-observed",
    "the coordinator",
    "the sensors' projections, not their gaps: when each observed, from the guard's sums",
    _who_observed,
)
MEMBERSHIP = Attack(
    "membership",
    "anyone who sees the published Q",
    "a candidate series: was this sensor part of the run?",
    _membership,
)
ATOMS = Attack(
    "atoms",
    "a coordinator of another protocol",
    "sums over the sensors that observed each slot, which this product does not send: a lesson",
    _atoms,
)
