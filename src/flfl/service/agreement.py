"""What all parties of a run agree on, and what an owner checks before taking part."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from flfl.errors import FLFLError
from flfl.protocol.messages import Question, decode, encode
from flfl.protocol.plan import Plan
from flfl.protocol.public import Network
from flfl.protocol.schema import PROTOCOL
from flfl.protocol.state import network_from_arrays, network_to_arrays
from flfl.service.config import Terms
from flfl.service.grid import TimeGrid

_MOST_ROUNDS, _MOST_FACTORS = 100, 1000
"""More than anybody needs: an owner's machine does not work without end for others."""


class AgreementError(FLFLError):
    """A run that this party does not take part in, with the reason. No reading is in it."""


@dataclass(frozen=True)
class Agreement:
    """A run as it is announced.

    Attributes
    ----------
    call : the question "who can take part?" that came before
    roster : hash of the list of sites, or empty without secure sums
    geography : ``latlon``, ``metric`` or empty; centre : of the map, in radians
    """

    network: str
    number: int
    call: str
    grid: TimeGrid
    plan: Plan
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


def _plan(given: Mapping[str, Any]) -> Plan:
    box = given["box"]
    return Plan(**{**given, "box": None if box is None else _tuples(box)})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def check_terms(agreement: Agreement, terms: Terms, roster: str) -> None:
    """Refuse a run that an owner does not agree to.

    The owner's added error needs no check: its own process makes the copies.

    Raises
    ------
    AgreementError
        With the term that is broken and what the run asks for.
    """
    plan = agreement.plan
    if plan.rounds > _MOST_ROUNDS or plan.rank > _MOST_FACTORS:
        raise AgreementError("the run has more rounds or factors than any owner works for")
    if terms.secure and not agreement.secure:
        raise AgreementError("the run has no secure sums, which this owner asks for")
    if agreement.secure and agreement.roster != roster:
        raise AgreementError("the coordinator's list of sites is not this site's")


def pack_network(agreement: Agreement, network: Network) -> bytes:
    """A finished run as it is published: what was agreed, and all that became public."""
    head = agreement.to_bytes()
    question = Question(agreement.run, 1, "resume", "*", network_to_arrays(network))
    return len(head).to_bytes(4) + head + encode(question, PROTOCOL)


def unpack_network(data: bytes) -> tuple[Agreement, Network]:
    """The finished run back.

    Raises
    ------
    FLFLError
        For anything else.
    """
    stop = 4 + int.from_bytes(data[:4])
    agreement = Agreement.from_bytes(data[4:stop])
    try:
        body = decode(Question, data[stop:], PROTOCOL, {}).body
        network = network_from_arrays(body, agreement.plan)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        raise AgreementError("what was published is no finished run") from None
    if network.n_slots != agreement.grid.slots:
        raise AgreementError("what was published is no finished run")
    return agreement, network
