"""All methods by name."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

from flfl.baselines.fedgnn import FedGNN
from flfl.baselines.fedmf import FedMF
from flfl.baselines.fedrec import FedRec
from flfl.baselines.fedrec_plus import FedRecPlus
from flfl.baselines.fesog import FeSoG
from flfl.baselines.graphtrss import GraphTRSS
from flfl.baselines.idw import IDW
from flfl.baselines.interpolate import Linear, Mean, Pchip
from flfl.baselines.kalman_em import KalmanEM
from flfl.baselines.lfa import LFA
from flfl.baselines.lrds import LRDS
from flfl.baselines.metamf import MetaMF
from flfl.baselines.rfrec import RFRec
from flfl.baselines.softimpute import SoftImpute
from flfl.baselines.trmf import TRMF
from flfl.baselines.tvgs import TVGS
from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.flfl import FLFL
from flfl.estimators.paper import PaperFLFL


@dataclass(frozen=True)
class Method:
    """One entry of the registry.

    Attributes
    ----------
    name : lower case, as on the command line
    build : makes the estimator
    summary : one line
    federated : whether owners keep their readings at home and send something else
    pooled : whether it needs all readings in one place
    seeded : whether it draws random numbers
    needs : the optional extra it needs, if any
    grid : the settings that tuning tries, at most :data:`BUDGET` of them; empty for a method
        without settings, or one that chooses its own from the readings it is given
    """

    name: str
    build: Callable[..., BaseRecoverer]
    summary: str
    federated: bool = False
    pooled: bool = False
    seeded: bool = False
    needs: str | None = None
    grid: tuple[Mapping[str, Any], ...] = ()

    @property
    def available(self) -> bool:
        """Whether the extra that it needs is installed."""
        return self.needs is None or importlib.util.find_spec(_EXTRAS[self.needs]) is not None

    def require(self) -> None:
        """Refuse to go on where the extra that it needs is not installed."""
        if not self.available:
            raise InputError(
                f"the method {self.name} needs an extra that is not installed",
                remedy=f"Install it: pip install 'flfl[{self.needs}]'",
            )


BUDGET = 4
"""Settings that a method may try, the same for all."""
_EXTRAS = {"neural": "jax"}
"""The module by which an installed extra is known."""
_FACTOR_GRID = (
    {"rank": 10, "ridge": 0.15},
    {"rank": 10, "ridge": 0.08},
    {"rank": 20, "ridge": 0.025},
    {"rank": 20, "ridge": 0.005},
)
"""Few readings of a slot want a large ridge, many a high rank."""


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "flfl",
            FLFL,
            "our default: a dynamic factor model of one release of noisy copies, finished at home",
            federated=True,
            seeded=True,
        ),
        Method(
            "alone",
            partial(FLFL, sharing="nothing"),
            "flfl without a network: each owner from its own sensors, nothing shared",
            seeded=True,
        ),
        Method(
            "pooled",
            partial(FLFL, sharing="everything"),
            "flfl as if one owner held all sensors, central",
            pooled=True,
            seeded=True,
        ),
        Method(
            "flfl-paper",
            PaperFLFL,
            "the paper's federation as printed; its plain uploads reveal the readings",
            federated=True,
            seeded=True,
            # Beside the weights that validation chose once (docs/decisions/0003), smoother ones.
            grid=(
                {"spatial_weight": 0.1, "temporal_weight": 0.3},
                {"spatial_weight": 0.1, "temporal_weight": 1.0},
            ),
        ),
        Method(
            "lfa",
            LFA,
            "latent factors by alternating least squares, central",
            pooled=True,
            seeded=True,
            grid=({"rank": 3}, {"rank": 10}, {"rank": 20}, {"rank": 20, "ridge": 0.3}),
        ),
        Method(
            "fedmf",
            FedMF,
            "federated matrix factorisation; its plain uploads reveal the readings",
            federated=True,
            seeded=True,
            grid=_FACTOR_GRID,
        ),
        Method(
            "fedrec",
            FedRec,
            "federated factors; made-up rows hide which slots a sensor observed, not its readings",
            federated=True,
            seeded=True,
            # What is made up acts as a ridge of its own.
            grid=(
                {"rank": 10, "ridge": 0.1},
                {"rank": 10, "ridge": 0.03},
                {"rank": 20, "ridge": 0.02},
                {"rank": 20, "ridge": 0.005},
            ),
        ),
        Method(
            "fedrec++",
            FedRecPlus,
            "fedrec whose made-up rows are taken out again by denoising clients",
            federated=True,
            seeded=True,
            grid=_FACTOR_GRID,
        ),
        Method(
            "rfrec",
            RFRec,
            "federated factors: each client keeps a copy of all slots' factors and sends it whole",
            federated=True,
            seeded=True,
            grid=(
                {"rank": 10, "ridge": 0.1, "slot_ridge": 0.5},
                {"rank": 10, "ridge": 0.01, "slot_ridge": 0.5},
                {"rank": 10, "ridge": 0.01, "slot_ridge": 0.1},
                {"rank": 20, "ridge": 0.002, "slot_ridge": 0.02},
            ),
        ),
        Method(
            "metamf",
            MetaMF,
            "a server that generates a small private network for every sensor",
            federated=True,
            seeded=True,
            needs="neural",
            # Narrow generators share more between sensors, wide ones fit dense tables better.
            grid=({"hidden": 16}, {"hidden": 64, "learning_rate": 0.01}),
        ),
        Method(
            "fesog",
            FeSoG,
            "attention over neighbours and observed slots, with pseudo readings",
            federated=True,
            seeded=True,
            needs="neural",
            grid=({"decay": 1e-3}, {"decay": 1e-2}),
        ),
        Method(
            "fedgnn",
            FedGNN,
            "a local graph network whose gradients are cut and noised",
            federated=True,
            seeded=True,
            needs="neural",
            # Long steps learn more in the rounds there are, short ones average more noise away.
            grid=({"learning_rate": 0.02}, {"learning_rate": 0.05}),
        ),
        Method(
            "tvgs",
            TVGS,
            "changes from slot to slot are smooth on the graph, central",
            pooled=True,
            grid=({"alpha": 1e-3}, {"alpha": 0.02}, {"alpha": 0.5}, {"alpha": 2.0}),
        ),
        Method(
            "graphtrss",
            GraphTRSS,
            "as tvgs, with Sobolev smoothness: each sensor's changes are small as well, central",
            pooled=True,
            grid=(
                {"alpha": 1e-3, "epsilon": 0.02},
                {"alpha": 0.2, "epsilon": 0.1},
                {"alpha": 0.01, "epsilon": 2.0},
                {"alpha": 0.005, "epsilon": 10.0},
            ),
        ),
        Method(
            "lrds",
            LRDS,
            "low rank and smooth changes on the graph together, central",
            pooled=True,
            grid=(
                {"alpha": 1e-3, "shrinkage": 0.003},
                {"alpha": 1e-3, "shrinkage": 0.03},
                {"alpha": 0.05, "shrinkage": 0.003},
                {"alpha": 0.5, "shrinkage": 0.003},
            ),
        ),
        Method(
            "trmf",
            TRMF,
            "latent factors whose courses predict themselves, central",
            pooled=True,
            grid=(
                {"rank": 40, "ridge": 0.3, "temporal_weight": 0.3},
                {"rank": 40, "ridge": 1.0, "temporal_weight": 1.0},
                {"rank": 40, "ridge": 3.0, "temporal_weight": 3.0},
                {"rank": 20, "ridge": 3.0, "temporal_weight": 3.0},
            ),
        ),
        Method(
            "softimpute",
            SoftImpute,
            "shrunken singular values, central",
            pooled=True,
            grid=tuple({"shrinkage": share} for share in (0.01, 0.05, 0.2, 0.6)),
        ),
        Method(
            "idw",
            IDW,
            "the others' deviations at that slot, the nearer the heavier, central",
            pooled=True,
            grid=tuple({"power": power} for power in (1.0, 2.0, 3.0, 4.0)),
        ),
        Method(
            "kalman-em",
            KalmanEM,
            "a full-rank linear dynamical system learned by EM, central",
            pooled=True,
        ),
        Method("linear", Linear, "each sensor alone: straight lines between its readings"),
        Method("pchip", Pchip, "each sensor alone: shape-preserving cubics"),
        Method("mean", Mean, "each sensor alone: its mean"),
    )
}


_NOISE = "use added_error, the noise in the copies that leave (1 by default, 0 for none)"
GONE = {
    "max_exposure": _NOISE,
    "blur": _NOISE,
    "collusion": "leave it out: noisy copies hold against any coalition; see added_error",
    "epsilon": "use added_error; the result reports the epsilon that it means, as guarantee",
    "delta": "use added_error; the result reports the epsilon that it means, as guarantee",
    "projection": "leave it out; share says how many numbers are released for a reading",
    "account": "leave it out: a reading has one copy for ever, so further runs tell nothing more",
}
"""Options that are gone, and what replaces them."""


def find(name: str) -> Method:
    """The method of that name.

    Examples
    --------
    >>> find("linear").federated
    False
    """
    if name in METHODS:
        return METHODS[name]
    close = difflib.get_close_matches(name, METHODS, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise InputError(
        f"unknown method {name!r}", remedy=f"{hint}`flfl methods` lists them: {', '.join(METHODS)}"
    )


def create(name: str, /, *, seed: int = 0, **options: Any) -> BaseRecoverer:
    """An estimator of the method, seeded where it draws random numbers.

    ``random_state`` among the options, as scikit-learn calls it, comes before ``seed``.

    Examples
    --------
    >>> create("lfa", seed=3).random_state
    3
    """
    method = find(name)
    if not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"{seed!r} is no seed", where="seed", remedy="Give 0 or more, whole")
    known = inspect.signature(method.build).parameters
    unknown = [option for option in options if option not in known]
    if unknown and unknown[0] in GONE:
        raise InputError(f"{unknown[0]} is gone: {GONE[unknown[0]]}")
    if unknown:
        choice = f"Its options are {', '.join(known)}" if known else "Leave it out"
        raise InputError(f"the method {name} has no option {unknown[0]}", remedy=choice)
    if method.seeded:
        options.setdefault("random_state", int(seed))
    return method.build(**options)
