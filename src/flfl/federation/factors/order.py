"""Which question may follow which, and how often: a site answers no other.

Every answer tells something. A coordinator that could ask in any order, or for ever, would collect
more than was counted: noise sums through many smoothers, refits beyond their share, sums without
noise in a run that has a budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from flfl.federation.factors.protocol import FactorPlan

Next = Mapping[str, tuple[str, ...]]

_PREPARING: Next = {
    "basis": ("whiten",),
    "whiten": ("guard", "local", "weigh"),
    "guard": ("guard", "local"),
    "local": ("window", "weigh"),
    "window": ("window", "weigh"),
    # Once more from the beginning where somebody left in between.
    "weigh": ("open", "span"),
}
_HEADS: Next = {
    "heads": ("heads", "boost", "mix"),
    "boost": ("mix",),
    "mix": ("mix", "settle"),
    "settle": ("publish",),
    "publish": (),
}
_FITTING: Next = {"open": ("round", "finish"), "round": ("round", "finish")}

WHOLE: Next = {
    "": ("trial", "units"),
    "trial": ("units",),
    "units": ("span",),
    "span": ("span", "basis", "alone"),
    **_PREPARING,
    **_FITTING,
    "finish": ("heads",),
    "alone": ("heads",),
    **_HEADS,
}
"""A run of its own."""

LEARNED: Next = {**WHOLE, "finish": ("heads", "span")}
"""The same with a learned projection: the fit is done twice."""

NOISY: Next = {
    "": ("enrol",),
    "enrol": ("span",),
    "span": ("basis", "alone"),
    **_PREPARING,
    "open": ("finish",),
    "finish": ("choose",),
    "alone": ("choose",),
    "choose": (),
}
"""One noisy release: nothing that depends on readings is asked before or after it."""

LATER: Next = {
    "": ("resume",),
    "resume": ("rewindow",),
    "rewindow": ("local", "weigh"),
    **{kind: _PREPARING[kind] for kind in ("local", "window")},
    "weigh": ("open",),
    **_FITTING,
    "finish": ("heads",),
    **_HEADS,
}
"""New slots on an earlier run's model."""

JOINING: Next = {"": ("adopt",), "adopt": ("heads", "choose"), **_HEADS, "choose": ()}
"""New sensors on a finished model: heads are chosen together, or by each site alone."""

_RESTARTS = 3
"""How often the preparation may begin again."""


@dataclass
class Order:
    """Where a site stands in a run."""

    plan: FactorPlan
    follows: Next
    _last: str = ""
    _asked: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, plan: FactorPlan, later: bool) -> Order:
        """The order of a run: by its plan, and whether it goes on from an earlier one."""
        if later:
            return cls(plan, LATER)
        if plan.epsilon is not None:
            return cls(plan, NOISY)
        return cls(plan, LEARNED if plan.projection == "learned" else WHOLE)

    def problem(self, kind: str) -> str:
        """Why a question is not answered now; nothing where it is, and then it counts as asked."""
        follows = self.follows
        if not self._last and kind == "adopt":
            # A site that has not been asked anything may join a finished model instead.
            follows = self.follows = JOINING
        if kind not in follows.get(self._last, ()):
            return f"asked for {kind!r} after {self._last or 'nothing'!r}"
        if self._asked[kind] >= self._most(kind):
            return f"asked for {kind!r} more than {self._most(kind)} times"
        self._asked[kind] += 1
        self._last = kind
        return ""

    def _most(self, kind: str) -> int:
        plan = self.plan
        twice = 2 if plan.projection == "learned" else 1
        again = twice + _RESTARTS
        limits = {
            "span": 1 + again,
            "guard": plan.guard_sums * again,
            "window": plan.window_sums * again,
            "open": twice,
            "round": twice * plan.most_rounds,
            "finish": twice,
            "heads": 2,
            "mix": 2,
        }
        return limits.get(kind, again if kind in _PREPARING else 1)
