"""What an audit concludes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flfl.audit.attack import Finding
from flfl.audit.view import View
from flfl.privacy.secure_sum import LEAST_SITES

MARGIN = 0.05
"""An attack may read so much more than the cap before the audit fails."""
USUAL_CAP = 0.5
"""Judged by this where a configuration sets no cap of its own."""


@dataclass(frozen=True)
class Report:
    """The findings of an audit and what they amount to.

    Attributes
    ----------
    disclosure : ``"sums"`` or ``"plain"``
    max_exposure : the configuration's own cap; 1 for none
    secure : whether the coordinator sees totals over sites only
    learned : whether the projection is learned on slots that the owners give up
    numbers_per_reading : the most numbers released for a reading in any window
    computed_exposure : what the sites computed before their first upload, worst sensor
    view : both sides of the run, for attacks of one's own; None where nothing was shared
    """

    findings: Sequence[Finding]
    disclosure: str
    max_exposure: float
    secure: bool
    n_sites: int
    n_sensors: int
    learned: bool = False
    rank: int = 0
    rounds: int = 0
    numbers_per_reading: float = 0.0
    computed_exposure: float = 0.0
    seconds: float = 0.0
    notes: Sequence[str] = ()
    view: View | None = field(default=None, repr=False)

    @property
    def why_not_private(self) -> str:
        """Why the configuration does not call itself private; nothing where it does."""
        if self.disclosure == "plain":
            return "uploads are plain"
        if self.max_exposure >= 1:
            return "the guard is off: the coordinator is trusted with everything"
        if self.learned:
            return "the oldest slots are shown without the guard to learn the projection"
        if self.n_sites < LEAST_SITES:
            return f"{self.n_sites} sites are too few to hide among"
        if not self.secure:
            return "the coordinator sees each site's own sums"
        return ""

    @property
    def private(self) -> bool:
        """Whether the configuration calls itself private."""
        return not self.why_not_private

    @property
    def cap(self) -> float:
        """What is judged by: the configuration's cap, or the usual one where it sets none."""
        return self.max_exposure if self.max_exposure < 1 else USUAL_CAP

    @property
    def breaches(self) -> list[Finding]:
        """Judged findings beyond the cap: too much news, or clearly more readings than guessing."""
        return [one for one in self.findings if one.judged and self._beyond(one)]

    def _beyond(self, one: Finding) -> bool:
        news = one.news_read_max is not None and one.news_read_max > self.cap + MARGIN
        if one.readings_exposed is None or one.guessing_exposes is None:
            return news
        guessed = max(one.guessing_exposes.mean, one.guessing_exposes.factors)
        return news or one.readings_exposed > guessed + MARGIN

    @property
    def exposed(self) -> bool:
        """Whether some judged attack reads more than the cap and a margin."""
        return bool(self.breaches)

    @property
    def verdict(self) -> str:
        """One or two sentences for a person."""
        if not self.findings:
            return "Nothing was shared, so there is nothing to read."
        claim = (
            "This configuration calls itself private"
            if self.private
            else f"This configuration does not call itself private: {self.why_not_private}"
        )
        if not self.exposed:
            return f"{claim}. No attack that it must withstand reads beyond {_limit(self)}."
        worst = max(self.breaches, key=_size)
        link = ", but" if self.private else ", and"
        found = f"{worst.name} {_reads(worst)}; the limit is {_limit(self)}"
        return f"{claim}{link} it is EXPOSED: {found}."

    @property
    def failed(self) -> bool:
        """Whether a promise is broken: private by its own word, and exposed."""
        return self.private and self.exposed

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "disclosure": self.disclosure,
            "private": self.private,
            "why_not_private": self.why_not_private or None,
            "max_exposure": self.max_exposure,
            "cap": self.cap,
            "margin": MARGIN,
            "secure": self.secure,
            "sites": self.n_sites,
            "sensors": self.n_sensors,
            "rank": self.rank,
            "rounds": self.rounds,
            "numbers_per_reading": self.numbers_per_reading,
            "computed_exposure": self.computed_exposure,
            "attacks": [one.as_dict() for one in self.findings],
            "exposed": self.exposed,
            "verdict": self.verdict,
            "seconds": round(self.seconds, 2),
            "notes": list(self.notes),
        }


def _size(one: Finding) -> float:
    return max(one.news_read_max or 0.0, one.readings_exposed or 0.0)


def _reads(one: Finding) -> str:
    if one.news_read_max is None:
        return f"reads {one.readings_exposed:.0%} of the readings to within 1 %"
    whose = f" of the news of {one.worst_sensor}" if one.worst_sensor else " of a sensor's news"
    return f"reads {one.news_read_max:.2f}{whose}"


def _limit(report: Report) -> str:
    return f"{report.cap:g} of any sensor's news (and {MARGIN:g} of margin)"
