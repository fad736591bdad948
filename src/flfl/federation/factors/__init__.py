"""The default method's federation: a dynamic factor model seen through one fixed projection.

``protocol`` says what travels, ``program`` is the coordinator's part, ``site`` a site's part of
the shared fit, ``heads`` what a site does alone with the result and the sums that choose among
its estimates.
"""

from flfl.federation.factors.program import coordinate
from flfl.federation.factors.promise import RefusedError
from flfl.federation.factors.protocol import PROTOCOL, FactorPlan
from flfl.federation.factors.site import FactorSite

__all__ = ["PROTOCOL", "FactorPlan", "FactorSite", "RefusedError", "coordinate"]
