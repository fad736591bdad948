"""What the secure sum refuses. No message ever quotes a key, a seed, a share or a reading."""

from __future__ import annotations

from flfl.errors import FLFLError


class SecureSumError(FLFLError):
    """A message or a request that the protocol does not allow; nothing has changed."""


class BelowThresholdError(SecureSumError):
    """Too few sites are left: the sum is given up, and nothing of it is revealed."""
