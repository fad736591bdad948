"""The coordinator's side of the secure sum: bytes in, bytes out. It holds no secret.

One run::

    hello -> keys           every site's run keys, signed
    bundle -> shares        everyone's keys; shares of the first sum's secrets

and for each sum::

    ask -> masked           the question with the others' shares; masked numbers
    [agree -> consent]      only where somebody dropped since: which list is opened
    reveal -> unmask        shares that open this sum, and shares of the next sum's secrets
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flfl.secagg import masks, wire
from flfl.secagg.errors import BelowThresholdError, SecureSumError
from flfl.secagg.identity import SIGNATURE_BYTES, Roster
from flfl.secagg.opening import Prepared, Shares, open_sum
from flfl.secagg.pairs import check_run_keys
from flfl.secagg.shamir import SHARE_BYTES
from flfl.secagg.views import Network, consent_statement, slices, view_of
from flfl.secagg.wire import Frame

Envelope = tuple[str, bytes]
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """A finished sum: the total, the shapes of the arrays inside, and whose numbers they are."""

    total: NDArray[np.int64]
    shapes: Shapes
    sites: tuple[str, ...]


@dataclass
class _Sum:
    """The sum under way."""

    number: int
    members: tuple[str, ...]
    prepared: Mapping[str, Prepared]
    view: bytes
    label: str
    whole: bool
    total: NDArray[np.uint64] | None = None
    shapes: Shapes = ()
    survivors: tuple[str, ...] = ()


class SecureSums:
    """Carries masked numbers and shares between sites, and opens sums.

    Parameters
    ----------
    roster : the sites that the operators agreed on
    run : names the run in every message

    Attributes
    ----------
    outcome : the finished sum, until :meth:`take`

    Guarantees
    ----------
    * A sum equals, bit by bit, the sum of the numbers of ``outcome.sites``, at least the
      threshold of them; a wrong one is an error, never a result.
    * With every site either answering or reported :meth:`absent`, each sum ends: opened, or given
      up below the threshold with nothing revealed.
    * A refused message changes nothing.
    """

    def __init__(self, roster: Roster, run: str) -> None:
        self.outcome: Outcome | None = None
        self._roster, self._run = roster, run
        self._phase = "new"
        self._number = 0
        self._waiting: set[str] = set()
        self._gone: set[str] = set()
        self._got: dict[str, Frame] = {}
        self._network: Network | None = None
        self._prepared: dict[str, Prepared] = {}
        self._sum: _Sum | None = None

    @property
    def ready(self) -> bool:
        """Whether a question can be asked."""
        return self._phase == "ready" and self.outcome is None

    @property
    def failed(self) -> bool:
        """Whether too few were left, or a sum could not be opened: the run is over."""
        return self._phase == "failed"

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that are in the run and not gone."""
        names = self._roster.names if self._network is None else self._network.present
        if self._phase == "ready":
            names = tuple(self._prepared)
        return tuple(name for name in sorted(names) if name not in self._gone)

    def start(self) -> list[Envelope]:
        """The first messages."""
        if self._phase != "new":
            raise SecureSumError("the run has begun already")
        return self._send("keys", "hello", {name: {} for name in self._roster.names})

    def ask(self, question: bytes, label: str = "", *, whole: bool = False) -> list[Envelope]:
        """Ask a question whose answers are to be summed; ``whole``: over all of them or not."""
        if not self.ready:
            raise SecureSumError("the last sum is not finished")
        network = self._the_network()
        members = self.sites
        self._enough(len(members))
        prepared = {name: self._prepared[name] for name in members}
        _check_pairs(network, prepared)
        packed, hashed = self._roster.pack(members), wire.hash_question(question)
        view = view_of(self._roster, network, self._run, self._number, packed, hashed)
        self._sum = _Sum(self._number, members, prepared, view, label, whole)
        sections = {
            name: {
                "present": packed,
                "boxes": b"".join(
                    prepared[other].boxes[name]
                    for other in network.neighbours[name]
                    if other in prepared
                ),
                "question": question,
            }
            for name in members
        }
        return self._send("masked", "ask", sections, label, hashed)

    def take(self) -> Outcome:
        """The finished sum; makes room for the next."""
        outcome = self.outcome
        if outcome is None:
            raise SecureSumError("no sum is finished")
        self.outcome = None
        return outcome

    def receive(self, data: bytes) -> list[Envelope]:
        """Take a site's message; returns what to send now."""
        frame = wire.decode_from_site(data, self._roster)
        if frame.run != self._run or frame.number != self._number or frame.kind != self._phase:
            raise SecureSumError(
                f"{frame.site}: {frame.kind!r} of sum {frame.number} is not awaited"
            )
        if frame.site not in self._waiting:
            why = "answers twice" if frame.site in self._got else "was not asked, or was given up"
            raise SecureSumError(f"{frame.site}: {why}")
        takers: dict[str, Callable[[Frame], None]] = {
            "keys": self._take_keys,
            "shares": self._take_shares,
            "masked": self._take_masked,
            "consent": self._take_consent,
            "unmask": self._take_unmask,
        }
        takers[frame.kind](frame)
        self._got[frame.site] = frame
        self._waiting.discard(frame.site)
        return self._advance()

    def absent(self, site: str) -> list[Envelope]:
        """A site is gone for good; returns what to send now.

        Raises
        ------
        BelowThresholdError
            When too few are left; the run is over.
        """
        if site not in self._roster.keys:
            raise SecureSumError(f"{site!r} is not in the roster")
        if site in self._gone:
            return []
        self._gone.add(site)
        if site not in self._waiting:
            return []
        self._waiting.discard(site)
        return self._advance()

    def can_lose(self, site: str) -> bool:
        """Whether the run could go on without a site."""
        if self._phase == "masked" and self._the_sum().whole and site in self._waiting:
            return False
        # While a phase is under way its answers so far count; whoever left is missed in the next.
        here = {*self._waiting, *self._got} - self._gone if self._waiting else set(self.sites)
        return len(here - {site}) >= self._roster.threshold

    # --- what came ---------------------------------------------------------------------------

    def _take_keys(self, frame: Frame) -> None:
        check_run_keys(self._roster, self._run, frame.site, bytes(frame.sections["keys"]))

    def _take_shares(self, frame: Frame) -> None:
        Prepared.read(frame, self._the_network())

    def _take_masked(self, frame: Frame) -> None:
        sum_ = self._the_sum()
        if bytes(frame.sections["view"]) != sum_.view:
            raise SecureSumError(f"{frame.site}: answers something else than was asked")
        shapes = _shapes(frame)
        if len(frame.sections["numbers"]) != 8 * sum(math.prod(shape) for shape in shapes):
            raise SecureSumError(f"{frame.site}: the numbers do not fill their shapes")
        words = np.frombuffer(frame.sections["numbers"], "<u8")
        if sum_.total is None:
            sum_.total, sum_.shapes = words.astype(np.uint64), shapes
        elif shapes != sum_.shapes:
            raise SecureSumError(f"{frame.site}: answers in another shape than the others")
        else:
            sum_.total += words

    def _take_consent(self, frame: Frame) -> None:
        sum_ = self._the_sum()
        statement = consent_statement(sum_.view, self._roster.pack(sum_.survivors))
        self._roster.verify(frame.site, bytes(frame.sections["consent"]), statement)

    def _take_unmask(self, frame: Frame) -> None:
        Prepared.read(frame, self._the_network())
        self._shares_in(frame)

    def _shares_in(self, frame: Frame) -> Shares:
        """The shares that a site reveals, by the site whose secret they belong to."""
        sum_, network = self._the_sum(), self._the_network()
        held = [name for name in network.holders(frame.site) if name in sum_.members]
        kept = [name for name in held if name in sum_.survivors]
        lost = [name for name in held if name not in sum_.survivors]
        selves = slices(frame.sections["selves"], SHARE_BYTES, len(kept), "the shares")
        vaults = slices(frame.sections["vaults"], SHARE_BYTES, len(lost), "the shares")
        return Shares(dict(zip(kept, selves, strict=True)), dict(zip(lost, vaults, strict=True)))

    # --- what follows ------------------------------------------------------------------------

    def _advance(self) -> list[Envelope]:
        if self._waiting:
            return []
        self._enough(len(self._got))
        return {
            "keys": self._share_out,
            "shares": self._rest,
            "masked": self._settle_survivors,
            "consent": self._open_agreed,
            "unmask": self._finish,
        }[self._phase]()

    def _share_out(self) -> list[Envelope]:
        keys = {name: bytes(frame.sections["keys"]) for name, frame in self._got.items()}
        self._network = Network.of(self._roster, self._run, keys)
        present = self._network.present
        body = {
            "present": self._roster.pack(present),
            "keys": b"".join(keys[name] for name in present),
        }
        self._enough(len(set(present) - self._gone))
        envelopes = self._send("shares", "bundle", dict.fromkeys(self._here(present), body))
        self._number = 1
        return envelopes

    def _rest(self) -> list[Envelope]:
        """Wait for the next question, with the shares of its sum at hand."""
        network = self._the_network()
        self._prepared = {name: Prepared.read(f, network) for name, f in self._got.items()}
        self._phase = "ready"
        return []

    def _settle_survivors(self) -> list[Envelope]:
        sum_ = self._the_sum()
        sum_.survivors = tuple(sorted(self._got))
        if sum_.survivors == sum_.members:
            return self._open(sum_.survivors, b"")
        if sum_.whole:
            self._phase, self._waiting = "failed", set()
            lost = ", ".join(sorted(set(sum_.members) - set(sum_.survivors)))
            raise BelowThresholdError(
                f"{lost} left during {sum_.label!r}, which is opened for all sites or for none: the"
                " run stops, and the sum stays hidden. Run again when all are back"
            )
        body = {"survivors": self._roster.pack(sum_.survivors)}
        return self._send("consent", "agree", dict.fromkeys(self._here(sum_.survivors), body))

    def _open_agreed(self) -> list[Envelope]:
        signers = sorted(self._got)[: self._roster.threshold]
        signatures = [bytes(self._got[name].sections["consent"]) for name in signers]
        assert all(len(signature) == SIGNATURE_BYTES for signature in signatures)
        return self._open(sorted(self._got), self._roster.pack(signers) + b"".join(signatures))

    def _open(self, asked: Iterable[str], consents: bytes) -> list[Envelope]:
        here = self._here(asked)
        self._enough(len(here))
        packed = self._roster.pack(self._the_sum().survivors)
        body = {"survivors": packed, "consents": consents}
        return self._send("unmask", "reveal", dict.fromkeys(here, body))

    def _finish(self) -> list[Envelope]:
        sum_, network = self._the_sum(), self._the_network()
        assert sum_.total is not None
        revealed = {name: self._shares_in(frame) for name, frame in self._got.items()}
        try:
            open_sum(
                sum_.total, self._roster, network, self._run, sum_.number, sum_.prepared,
                sum_.survivors, revealed, sum_.view,
            )  # fmt: skip
            n_sites = len(self._roster.names)
            total = masks.from_ring(sum_.total, len(sum_.survivors), n_sites)
        except Exception:
            self._phase = "failed"
            raise
        self._rest()
        self._number += 1
        self._sum = None
        self.outcome = Outcome(total, sum_.shapes, sum_.survivors)
        return []

    # --- helpers -----------------------------------------------------------------------------

    def _here(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self._gone]

    def _enough(self, count: int) -> None:
        if count < self._roster.threshold:
            self._phase, self._waiting = "failed", set()
            raise BelowThresholdError(
                f"{count} of {len(self._roster.names)} sites are left and"
                f" {self._roster.threshold} are needed: the run stops, and the sum under way"
                " stays hidden"
            )

    def _send(
        self,
        awaited: str,
        kind: str,
        bodies: Mapping[str, Mapping[str, bytes]],
        label: str = "",
        hashed: bytes = b"",
    ) -> list[Envelope]:
        self._phase, self._waiting, self._got = awaited, set(bodies), {}
        return [
            (
                name,
                wire.encode_to_site(
                    Frame(kind, self._run, self._number, name, body, label), hashed
                ),
            )
            for name, body in bodies.items()
        ]

    def _the_network(self) -> Network:
        if self._network is None:
            raise SecureSumError("run keys have not been exchanged")
        return self._network

    def _the_sum(self) -> _Sum:
        assert self._sum is not None
        return self._sum


def _check_pairs(network: Network, prepared: Mapping[str, Prepared]) -> None:
    """Two neighbours' commitments to their common seed must agree before it is relied on."""
    for name, mine in prepared.items():
        for other, theirs in mine.pairs.items():
            if other > name and other in prepared and prepared[other].pairs[name] != theirs:
                raise SecureSumError(f"{name!r} and {other!r} do not have the same pair seed")


def _shapes(frame: Frame) -> Shapes:
    try:
        shapes = json.loads(bytes(frame.sections["shapes"]))
        good = isinstance(shapes, list) and all(
            isinstance(shape, list)
            and len(shape) <= 4
            and all(type(d) is int and 0 <= d < 2**32 for d in shape)
            # Beside a dimension of zero, others can be larger than any array may be.
            and math.prod(max(d, 1) for d in shape) < 2**32
            for shape in shapes
        )
    except (ValueError, RecursionError):
        good = False
    if not good:
        raise SecureSumError(f"{frame.site}: the list of shapes is malformed")
    return tuple(tuple(shape) for shape in shapes)
