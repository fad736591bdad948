"""Sums that hide their terms: the coordinator learns the total over enough sites, and no term.

Double masking after Bonawitz et al. (2017), with a sparse graph after Bell et al. (2020) for many
sites; ``docs/decisions/0010-secure-sums.md`` says what differs and what is guaranteed to whom.
Both sides are state machines without input or output of their own.
"""

from flfl.secagg.client import Asked, SecureClient
from flfl.secagg.keys import LEAST_SITES, BelowThresholdError, Identity, Roster, SecureSumError
from flfl.secagg.server import Outcome, SecureServer

__all__ = [
    "LEAST_SITES",
    "Asked",
    "BelowThresholdError",
    "Identity",
    "Outcome",
    "Roster",
    "SecureClient",
    "SecureServer",
    "SecureSumError",
]
