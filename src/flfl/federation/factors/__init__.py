"""The default method's federation: a dynamic factor model seen through one fixed projection.

``protocol`` says what travels and what all agree on. At the coordinator: ``program`` (the shared
fit), ``noisy`` (one noisy release instead), ``choosing`` (among the heads). At a site: ``keeping``
(what it holds), ``promise`` (what it checks and writes down before anything leaves), ``site`` (its
part of the shared fit), ``release`` (its noise), ``heads`` (what it does alone with the result).
"""

from collections.abc import MutableMapping

from flfl.federation.factors.noisy import OneRelease
from flfl.federation.factors.program import Coordination, Progress
from flfl.federation.factors.promise import RefusedError
from flfl.federation.factors.protocol import PROTOCOL, FactorPlan
from flfl.federation.factors.site import FactorSite
from flfl.federation.ledger import Ledger

__all__ = ["PROTOCOL", "FactorPlan", "FactorSite", "RefusedError", "coordinate"]


def coordinate(
    plan: FactorPlan,
    n_slots: int,
    ledger: Ledger,
    sizes: MutableMapping[str, int],
    progress: Progress | None = None,
) -> Coordination:
    """A run's coordinator part; its :meth:`Coordination.program` goes into a Coordinator."""
    kind = Coordination if plan.epsilon is None else OneRelease
    return kind(plan, n_slots, ledger, sizes, progress)
