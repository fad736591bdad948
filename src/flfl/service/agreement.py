"""What all parties of a run agree on, and what an owner checks before taking part."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np
from pydantic import TypeAdapter, ValidationError

from flfl.codec import CodecError, pack, unpack
from flfl.config import Terms
from flfl.errors import FLFLError, InputError
from flfl.protocol.network import Network
from flfl.protocol.plan import Addition, Fit, Plan
from flfl.protocol.schema import network_from_arrays, network_to_arrays
from flfl.service.files import set_aside, unseal
from flfl.service.grid import TimeGrid

T = TypeVar("T")
Geography = Literal["", "latlon", "metric"]
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
    geography : of the map, empty without one; centre : of the map, in radians
    history : hash of all that became public in earlier runs, empty in the first
    keep, first, fit : how slots are added to it, as :class:`~flfl.protocol.plan.Addition` has it
    """

    network: str
    number: int
    call: str
    grid: TimeGrid
    plan: Plan
    secure: bool
    roster: str
    sites: tuple[str, ...]
    geography: Geography = ""
    centre: tuple[float, float] = (0.0, 0.0)
    history: str = ""
    keep: int = 0
    first: int = 0
    fit: int = int(Fit.ANEW)

    def __post_init__(self) -> None:
        if not np.isfinite(self.centre).all():
            raise InputError("the map's centre is not finite")
        if self.fit not in list(Fit):
            raise InputError("there is no such way to add slots")

    @property
    def addition(self) -> Addition:
        """How slots are added to the history."""
        return Addition(self.keep, self.first, Fit(self.fit))

    @property
    def run(self) -> str:
        """The run's name, with a hash: parties that were told different things share no run."""
        return f"{self.network}-{self.number}-{hashlib.sha256(to_bytes(self)).hexdigest()[:16]}"


def to_bytes(value: Any) -> bytes:
    """The byte form of an agreement or of a grid."""
    return pack(_lists(asdict(value)))


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists(item) for name, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, tuple) else value


def _named(value: Any, given: Any) -> Any:
    """What was given by name: settings that an earlier version had not are as it had them."""
    if not isinstance(value, dict):
        return value
    return {name: _named(value[name], item) for name, item in given.items() if name in value}


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}
"""What reads each kind: making one takes longer than reading."""


def from_bytes(kind: type[T], data: bytes) -> T:
    """An agreement or a grid from what was received; an :class:`AgreementError` if it is none."""
    try:
        if kind not in _ADAPTERS:
            _ADAPTERS[kind] = TypeAdapter(kind)
        given = unpack(data)
        value: T = _ADAPTERS[kind].validate_python(given)
    except (CodecError, ValidationError, OverflowError) as error:
        raise AgreementError(f"what was announced cannot be used: {error}"[:500]) from None
    # A text that reads as a number, a number that reads as true: none of them is taken for another.
    if pack(_named(_lists(asdict(cast(Any, value))), given)) != data:
        raise AgreementError("what was announced cannot be used: its parts have other types")
    return value


def check_terms(agreement: Agreement, terms: Terms, roster: str) -> None:
    """Refuse, with an :class:`AgreementError`, a run that an owner does not agree to. The owner's
    added error needs no check: its own process makes the copies."""
    plan = agreement.plan
    if plan.rounds > _MOST_ROUNDS or plan.rank > _MOST_FACTORS:
        raise AgreementError("the run has more rounds or factors than any owner works for")
    if plan.share > terms.share:
        raise AgreementError(
            f"the run releases a share of {plan.share:g} of the readings' number, and this owner"
            f" agrees to {terms.share:g}"
        )
    if terms.secure and not agreement.secure:
        raise AgreementError("the run has no secure sums, which this owner asks for")
    if agreement.secure and agreement.roster != roster:
        raise AgreementError("the coordinator's list of sites is not this site's")


@dataclass(frozen=True)
class Published:
    """All that became public in a network until the end of a run, with what that run agreed on."""

    agreement: Agreement
    network: Network

    @cached_property
    def digest(self) -> str:
        """The hash by which parties know that they keep the same."""
        return self.network.digest.hex()

    @cached_property
    def data(self) -> bytes:
        """As it is kept and sent."""
        return pack([to_bytes(self.agreement), network_to_arrays(self.network)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Published:
        """It back; an :class:`AgreementError` for anything else."""
        try:
            agreed, arrays = unpack(data)
            agreement = from_bytes(Agreement, agreed)
            network = network_from_arrays(arrays, agreement.plan)
        except (ValueError, TypeError, AttributeError):
            raise AgreementError("what was published is no finished run") from None
        if network.stop != agreement.grid.slots:
            raise AgreementError("what was published is no finished run")
        return cls(agreement, network)

    @classmethod
    def load(cls, path: Path) -> Published | None:
        """What a party keeps; what is damaged is set aside, and others have it."""
        try:
            return cls.from_bytes(unseal(path))
        except FileNotFoundError:
            return None
        except (AgreementError, CodecError) as error:
            set_aside(path, error)
            return None

    def check_continued(self, agreement: Agreement) -> None:
        """Refuse, with an :class:`AgreementError`, a run that does not go on after this one."""
        mine, theirs = self.agreement, agreement
        same = all(
            getattr(mine.grid, name) == getattr(theirs.grid, name) for name in ("start", "step")
        )
        if not same or mine.network != theirs.network or theirs.grid.slots < self.network.stop:
            raise AgreementError(
                f"the network has the times {mine.grid.step} from {mine.grid.start} on, and"
                f" {self.network.stop} of them are released; {theirs.grid.slots} of"
                f" {theirs.grid.step} from {theirs.grid.start} do not go on after them: begin a"
                " network of another name"
            )
