"""What the rows say, in sentences: the first lines of the page of results."""

from __future__ import annotations

import pandas as pd

from flfl.methods import methods
from flfl_bench import figures, owners
from flfl_bench.statistics import OURS, paired_scores


def gained(rows: pd.DataFrame) -> str:
    """What owners gain, in a sentence; empty where the rows do not tell."""
    pairs = owners.paired(rows)
    half = pairs[(pairs["label"] == OURS) & pairs["pattern"].isin(("random", "block"))]
    found = {kind: owners.worth(group) for kind, group in owners.kinds(half)}
    single, few = (found[kind] for kind in owners.KINDS)
    if single is None or few is None:
        return ""
    return (
        f"**What you gain:** with half of the readings missing, an owner of one sensor has"
        f" {100 * single.gain:.0f} % less error than alone, {_share(single)} of what pooling"
        f" everybody's readings would gain; an owner of two to four has {100 * few.gain:.0f} %"
        f" less, {_share(few)} ({_networks(half[half['size'].notna()])})."
    )


def _share(found: owners.Worth) -> str:
    low, high = (100 * end for end in found.intervals[-1])
    return f"{100 * found.closed:.0f} % ({low:.0f} to {high:.0f})"


def _networks(pairs: pd.DataFrame) -> str:
    masks = pairs["seed"].nunique()
    return f"{pairs['data'].nunique()} networks, {masks} mask{'s' * (masks > 1)} of each pattern"


def protected(rows: pd.DataFrame) -> str:
    """What the noise costs, in a sentence; empty where the rows do not tell."""
    found = list(owners.by_noise(owners.paired(rows)))
    parts = [
        f"{' and '.join(_share(one) for _, at, one in found if at == noise)} with added error"
        f" {noise:g}"
        for noise in sorted({noise for _, noise, _ in found})
    ]
    networks = min((len(one.by_data) for *_, one in found), default=0)
    return (
        "**What protection costs:** of what pooling would gain, owners of one sensor and of two to"
        f" four keep {'; '.join(parts)} ({networks} networks at least, the same cells at each"
        f" amount). [What others can read](results/privacy.md) falls as it grows."
    )


def beside(rows: pd.DataFrame) -> str:
    """How other methods fare against ours, in a sentence; empty where the rows do not tell."""
    error = figures.relative_error(rows) - 1
    method = rows.groupby("label")["method"].first().map(methods().get)
    others = [label for label in error.index if method[label] is not None and label != OURS]
    home = [label for label in others if not method[label].pooled and method[label].name != OURS]
    central = [label for label in others if method[label].pooled and label != owners.POOLED]
    if not home or not central:
        return ""
    near, best = (min(labels, key=lambda label: error[label]) for labels in (home, central))
    cases = len(paired_scores(rows).dropna())
    return (
        f"**Beside what people use:** of {len(home)} other methods that leave readings with their"
        f" owners, the best (`{near}`) has {_more(error[near])} error than `flfl`; of"
        f" {len(central)} methods of others that need all readings in one place, the best"
        f" (`{best}`) has {_more(error[best])} (geometric mean over {_cases(cases)} that all of"
        " them were run on)."
    )


def _more(change: float) -> str:
    return f"{100 * abs(change):.0f} % {'more' if change > 0 else 'less'}"


def _cases(number: int) -> str:
    return "1 case" if number == 1 else f"{number} cases"
