"""What a run brought an owner: its figures for the diary, and its page and scores.

The page needs libraries that a waiting site does without, so another process makes it and ends.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.codec import CodecError, pack, unpack
from flfl.config import SiteSettings
from flfl.constants import LATER_ROUNDS
from flfl.protocol.client import Client, Finished
from flfl.protocol.network import Network
from flfl.protocol.plan import Fit
from flfl.protocol.traffic import Traffic
from flfl.service.agreement import Agreement

Array = NDArray[np.float64]
_LOG = logging.getLogger("flfl.site")
_WITHIN = 900.0
"""Seconds that a page may take."""


@dataclass(frozen=True, eq=False)
class Night:
    """A run as its owner is told of it, in values of :mod:`flfl.codec`.

    ``added_error`` is that of each sensor that has readings, None where nothing left the owner in
    this run; ``numbers`` were released for each reading; ``traffic`` counts bytes and messages.
    """

    site: str
    network: str
    secure: bool
    numbers: float
    rounds: int
    added_error: Array | None
    traffic: dict[str, dict[str, int]]
    settings: dict[str, str]

    @classmethod
    def of(
        cls,
        settings: SiteSettings,
        agreement: Agreement,
        network: Network,
        client: Client | None = None,
        traffic: Traffic | None = None,
    ) -> Night:
        """Of a run that the ``client`` took part in or, without one, that was joined at its end."""
        plan, added = agreement.plan, None
        if client is not None and isinstance(client.state, Finished):
            added = client.owner.in_units(client.outgoing, network.transform)
        numbers = float(network.numbers.sum() / max(int(network.known.sum()), 1))
        told = {"added error": settings.terms.added_error, "share": plan.share, "rank": plan.rank,
                "rounds": plan.rounds, "effort": settings.out.effort,
                "coverage": settings.out.coverage, "sites": ", ".join(agreement.sites)}  # fmt: skip
        if plan.late:
            told["late"] = settings.terms.late
        names = ("up", "down", "messages_up", "messages_down")
        counted = {name: dict(getattr(traffic or Traffic(), name)) for name in names}
        rounds = plan.rounds if agreement.fit == Fit.ANEW else LATER_ROUNDS
        shown = {name: str(value) for name, value in told.items()}
        return cls(
            settings.name, settings.network, agreement.secure, numbers, rounds, added,
            counted, shown,
        )  # fmt: skip


def gained(values: Array, holdout: Array, site_holdout: Array) -> dict[str, float]:
    """Mean absolute errors on held-out readings with the network and alone, and the gain; empty
    where nothing was held out. All are of one shape, NaN where there is nothing.

    Examples
    --------
    >>> gained(np.array([1.0, 2.0]), np.array([2.0, np.nan]), np.array([3.0, np.nan]))
    {'error': 1.0, 'alone': 2.0, 'gain': 0.5}
    """
    held = ~np.isnan(holdout) & ~np.isnan(site_holdout) & ~np.isnan(values)
    if not held.any():
        return {}
    error, alone = (
        float(np.abs(found[held] - values[held]).mean()) for found in (holdout, site_holdout)
    )
    return {"error": error, "alone": alone, "gain": 1 - error / alone if alone else 0.0}


def page_and_scores(document: Mapping[str, Any]) -> tuple[bytes, bytes] | None:
    """The owner's page and scores from a process of its own; None, with a line in the log, where
    that fails: the table is worth more than its page."""
    try:
        made = subprocess.run(
            [sys.executable, "-m", "flfl.report.owner"],
            input=pack(dict(document)),
            capture_output=True,
            timeout=_WITHIN,
        )
        page, scores = unpack(made.stdout)
        return page, scores
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    except (CodecError, ValueError, TypeError):
        why = made.stderr.decode(errors="replace").strip()[-500:] or "no reason was given"
    _LOG.error("the page and the scores could not be made: %s", why)
    return None
