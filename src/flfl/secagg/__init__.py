"""Sums that hide their terms: the coordinator learns the total over enough sites, and no term.

Double masking after Bonawitz et al. (2017), with a sparse graph after Bell et al. (2020) for many
sites; ``docs/decisions/0010-secure-sums.md`` says what differs and what is promised to whom.
Both sides are state machines without input or output of their own: :class:`SecureSite` and
:class:`SecureSums`.
"""

from flfl.secagg.coordinator import Outcome, SecureSums
from flfl.secagg.errors import BelowThresholdError, SecureSumError
from flfl.secagg.identity import (
    LEAST_SITES,
    Identity,
    Roster,
    Signer,
    default_threshold,
)
from flfl.secagg.site import Asked, SecureSite

__all__ = [
    "LEAST_SITES",
    "Asked",
    "BelowThresholdError",
    "Identity",
    "Outcome",
    "Roster",
    "SecureSite",
    "SecureSumError",
    "SecureSums",
    "Signer",
    "default_threshold",
]
