"""What all parties of a run agree on, and what an owner checks before taking part."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from flfl.deployment.config import Terms
from flfl.deployment.grid import TimeGrid
from flfl.errors import FLFLError
from flfl.federation.factors import FactorPlan

Kind = Literal["fit", "join"]
_OPEN = {
    "max_exposure", "projection", "rank", "transform", "period", "candidate_period", "length",
    "noise", "rounds", "box", "boost", "collusion", "blur", "epsilon", "delta", "bounds",
    "noise_sites", "n_sensors", "coverage",
}  # fmt: skip
"""What a coordinator may choose; all else is fixed by the program that every owner installed."""
_MOST_ROUNDS = 100
"""Every round asks something: nobody agrees to rounds without end."""


class AgreementError(FLFLError):
    """A run that this party does not take part in, with the reason."""


@dataclass(frozen=True)
class Agreement:
    """A run as it is announced.

    Attributes
    ----------
    kind : ``fit``, or ``join``: new sensors on a finished model, nothing of theirs leaves
    centre : of the map, in radians; geography : ``latlon``, ``metric`` or empty
    roster : hash of the list of sites, or empty without secure sums
    call : the question "who can take part?" that came before
    """

    network: str
    number: int
    kind: Kind
    call: str
    grid: TimeGrid
    plan: FactorPlan
    seed: int
    secure: bool
    roster: str
    sites: tuple[str, ...]
    geography: str = ""
    centre: tuple[float, float] = (0.0, 0.0)

    def to_bytes(self) -> bytes:
        """As it is sent and hashed."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @property
    def run(self) -> str:
        """The run's name. It holds the hash of everything here: parties that were told different
        things are in different runs, and do not understand each other."""
        digest = hashlib.sha256(self.to_bytes()).hexdigest()[:16]
        return f"{self.network}-{self.number}-{digest}"

    @classmethod
    def from_bytes(cls, data: bytes) -> Agreement:
        """From what was received.

        Raises
        ------
        AgreementError
            When it is not an agreement.
        """
        try:
            given = json.loads(data)
            grid, plan = grid_from(given["grid"]), _plan(given["plan"])
            rest = {k: v for k, v in given.items() if k not in ("grid", "plan", "sites", "centre")}
            agreement = cls(
                **rest,
                grid=grid,
                plan=plan,
                sites=tuple(str(name) for name in given["sites"]),
                centre=(float(given["centre"][0]), float(given["centre"][1])),
            )
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise AgreementError(f"what was announced is no run: {error}") from None
        for part in (agreement, grid, plan):
            _check_types(part)
        if agreement.to_bytes() != json.dumps(given, sort_keys=True).encode():
            raise AgreementError("what was announced is no run: it reads differently")
        return agreement


def grid_from(given: Any) -> TimeGrid:
    """The times that somebody announced.

    Raises
    ------
    AgreementError
        When they are none.
    """
    try:
        start, step, slots = given["start"], given["step"], given["slots"]
        if (type(start), type(step), type(slots)) != (str, str, int) or len(given) != 3:
            raise AgreementError("the times that were announced are none")
        return TimeGrid(start, step, slots)
    except (TypeError, KeyError, OverflowError):
        raise AgreementError("the times that were announced are none") from None


def _check_types(part: Any) -> None:
    for name, hint in get_type_hints(type(part)).items():
        if not _is_a(getattr(part, name), hint):
            raise AgreementError(f"what was announced is no run: {name} is not what it must be")


def _is_a(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; whole numbers are numbers too, infinity is none.

    Examples
    --------
    >>> _is_a(1, float | None), _is_a("1", float), _is_a(True, int)
    (True, False, False)
    >>> _is_a((1.0, 2.0), tuple[float, float]), _is_a(("a",), tuple[str, ...])
    (True, True)
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in inner
    if origin in (Union, UnionType):
        return any(_is_a(value, one) for one in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        wanted = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return len(wanted) == len(value) and all(map(_is_a, value, wanted))
    if hint is float:
        number = isinstance(value, float) or type(value) is int
        return number and abs(value) <= sys.float_info.max
    return value is None if hint is NoneType else type(value) is hint


def _plan(given: Mapping[str, Any]) -> FactorPlan:
    values = dict(given)
    for name in ("box", "bounds", "without"):
        if values[name] is not None:
            values[name] = _tuples(values[name])
    return FactorPlan(**values)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def check_terms(agreement: Agreement, terms: Terms, roster: str) -> None:
    """Refuse a run that asks for more than the owner agreed to.

    Raises
    ------
    AgreementError
        With the term that is broken and what the run asks for.
    """
    plan, usual = agreement.plan, FactorPlan()
    for item in fields(FactorPlan):
        if item.name not in _OPEN and getattr(plan, item.name) != getattr(usual, item.name):
            raise AgreementError(f"{item.name} is not as every site's program has it")
    _check_ranges(agreement)
    if plan.max_exposure > terms.max_exposure:
        raise AgreementError(
            f"the run would allow an exposure of {plan.max_exposure:g}, this owner"
            f" {terms.max_exposure:g}"
        )
    if terms.sensors is not None and plan.n_sensors > terms.sensors:
        raise AgreementError(
            f"the run counts on {plan.n_sensors} sensors, and this owner knows of {terms.sensors}"
        )
    if plan.projection == "learned" and not terms.learned:
        raise AgreementError(
            "a learned projection shows the oldest slots, which this owner forbids"
        )
    if plan.guarded and plan.projection == "adaptive":
        raise AgreementError("an adaptive projection needs a trusted coordinator")
    if terms.secure and not agreement.secure and agreement.kind == "fit":
        raise AgreementError("the run has no secure sums, which this owner asks for")
    if agreement.secure and agreement.roster != roster:
        raise AgreementError("the coordinator's list of sites is not this site's")
    if terms.epsilon is not None and (plan.epsilon is None or plan.epsilon > terms.epsilon):
        raise AgreementError(f"this owner asks for a privacy budget of {terms.epsilon:g} at most")


def _check_ranges(agreement: Agreement) -> None:
    """Settings that would make a promise hollow: what a site checks is checked against them."""
    plan = agreement.plan
    # Without secure sums each site's noise must be enough alone.
    sharing = len(agreement.sites) if agreement.secure else 1
    problems = {
        "n_sensors": plan.guarded and plan.n_sensors < 1,
        "collusion": not 0 <= plan.collusion < 1,
        "blur": plan.blur < 0,
        "rounds": not 1 <= (plan.rounds or 1) <= _MOST_ROUNDS,
        "noise_sites": not 1 <= plan.noise_sites <= sharing,
        "delta and bounds": plan.epsilon is not None and None in (plan.delta, plan.bounds),
    }
    if broken := [name for name, wrong in problems.items() if wrong]:
        raise AgreementError(f"{', '.join(broken)}: outside of what any owner agrees to")
