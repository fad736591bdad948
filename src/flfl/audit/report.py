"""What an audit concludes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flfl.audit.attack import Case, Finding
from flfl.audit.checks import Check

TOLERANCE = 0.02
"""An attack on the messages may read so much more than one on the copies, beyond statistical
error, before the audit fails."""


@dataclass(frozen=True)
class Report:
    """The findings of an audit and what they amount to.

    Attributes
    ----------
    disclosure : ``"sums"`` or ``"plain"``
    bound : R^2 of a surprise, in the mean over readings, that its copy shows: 1 / (1 + beta^2)
    added_error, share : settings of the run
    secure : whether the coordinator sees totals over sites only
    nights : stretches of slots that were released one after another in the second run
    case : the run with its truth, for attacks of one's own; None where nothing was shared
    """

    findings: Sequence[Finding]
    disclosure: str
    n_sites: int
    n_sensors: int
    bound: float = 1.0
    added_error: float | str = 0.0
    share: float = 0.0
    secure: bool = False
    nights: int = 0
    checks: Sequence[Check] = ()
    seconds: float = 0.0
    notes: Sequence[str] = ()
    case: Case | None = field(default=None, repr=False)

    @property
    def beaten(self) -> list[Finding]:
        """Attacks that read more from the messages than from the copies."""
        return [one for one in self.findings if one.excess > TOLERANCE]

    @property
    def failed(self) -> bool:
        """Whether something left that is not in the copies, or the copies are not noisy enough."""
        return bool(self.beaten) or any(not one.good for one in self.checks)

    @property
    def verdict(self) -> str:
        """One or two sentences for a person."""
        if self.disclosure == "plain":
            worst = max((one.readings_exposed or 0.0 for one in self.findings), default=0.0)
            return f"EXPOSED: plain uploads give {worst:.0%} of the readings to the coordinator."
        if not self.findings:
            return "Nothing was shared, so there is nothing to read."
        wrong = [f"{one.name}: no ({'; '.join(one.wrong[:3])})" for one in self.checks if one.wrong]
        wrong += [
            f"{one.name} reads {one.excess:.2f} more of {one.excess_sensor} from the messages than"
            " from the copies"
            for one in self.beaten
        ]
        if wrong:
            return f"FAILED: {'. '.join(wrong)}."
        return (
            "All that left follows from the noisy copies, which hold the noise that was declared,"
            f" and no attack reads more from it than from them. {self._measured()}"
        )

    def _measured(self) -> str:
        parts = []
        for name in dict.fromkeys(one.adversary for one in self.findings):
            found = [one for one in self.findings if one.adversary == name]
            most = max(found, key=lambda one: one.residual_read_max or 0.0)
            if most.residual_read_max is not None:
                parts.append(
                    f"{name} {most.residual_read_max:.2f} of the worst sensor's and"
                    f" {most.residual_read_median:.2f} of the median sensor's"
                )
        return f"Measured (R^2 of the residual, best attack): {'; '.join(parts)}."

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "disclosure": self.disclosure,
            "added_error": self.added_error,
            "share": self.share,
            "secure": self.secure,
            "sites": self.n_sites,
            "sensors": self.n_sensors,
            "nights": self.nights,
            "bound": self.bound,
            "attacks": [one.as_dict() for one in self.findings],
            "checks": [{"name": one.name, "wrong": list(one.wrong)} for one in self.checks],
            "failed": self.failed,
            "verdict": self.verdict,
            "seconds": round(self.seconds, 2),
            "notes": list(self.notes),
        }
