"""All methods by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flfl.baselines.interpolate import Linear, Mean, Pchip
from flfl.baselines.lfa import LFA
from flfl.errors import InputError
from flfl.estimators.base import BaseRecoverer
from flfl.estimators.dynamic import FLFL
from flfl.estimators.paper import PaperFLFL


@dataclass(frozen=True)
class Method:
    """One entry of the registry.

    Attributes
    ----------
    name : lower case, as on the command line
    build : makes the estimator
    summary : one line
    federated : whether owners keep their readings at home
    seeded : whether it draws random numbers
    needs : the optional extra it needs, if any
    """

    name: str
    build: Callable[..., BaseRecoverer]
    summary: str
    federated: bool = False
    seeded: bool = False
    needs: str | None = None


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "flfl",
            FLFL,
            "our default: a dynamic factor model through one fixed projection, with local heads",
            federated=True,
            seeded=True,
        ),
        Method(
            "flfl-paper",
            PaperFLFL,
            "the paper's federation as printed; its plain uploads reveal the readings",
            federated=True,
            seeded=True,
        ),
        Method("lfa", LFA, "latent factors by alternating least squares, central", seeded=True),
        Method("linear", Linear, "each sensor alone: straight lines between its readings"),
        Method("pchip", Pchip, "each sensor alone: shape-preserving cubics"),
        Method("mean", Mean, "each sensor alone: its mean"),
    )
}


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


def create(name: str, *, seed: int = 0, **options: Any) -> BaseRecoverer:
    """An estimator of the method, seeded where it draws random numbers.

    Examples
    --------
    >>> create("lfa", seed=3).random_state
    3
    """
    method = find(name)
    if method.seeded:
        options["random_state"] = seed
    try:
        return method.build(**options)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None
