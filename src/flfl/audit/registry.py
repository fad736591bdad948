"""Every attack on the sums, in the order in which a report shows them."""

from __future__ import annotations

from flfl.audit import adapters
from flfl.audit.attack import Attack
from flfl.audit.attacks import (
    coalition,
    differencing,
    known_sample,
    masks_known,
    noisy_release,
    readouts,
)

ATTACKS: tuple[Attack, ...] = (
    readouts.ATTACK,
    known_sample.ATTACK,
    masks_known.ATTACK,
    adapters.WHOLE_NUMBERS,
    adapters.COMPONENTS,
    adapters.LATENT_VECTORS,
    coalition.ATTACK,
    differencing.ATTACK,
    noisy_release.ATTACK,
    adapters.WHO_OBSERVED,
    adapters.MEMBERSHIP,
    adapters.ATOMS,
)
