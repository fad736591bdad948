"""A site's side of the secure sum: bytes in, bytes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flfl.secagg import masks, shamir
from flfl.secagg.errors import BelowThresholdError, SecureSumError
from flfl.secagg.identity import SIGNATURE_BYTES, Identity, Roster
from flfl.secagg.kdf import Randomness
from flfl.secagg.pairs import (
    RUN_KEYS_BYTES,
    Pair,
    PairKeys,
    RunKeys,
    check_run_keys,
)
from flfl.secagg.views import (
    BOX_BYTES,
    Network,
    commitment,
    consent_statement,
    opened,
    pair_mask_seed,
    sealed,
    self_mask_seed,
    slices,
    view_of,
)
from flfl.secagg.wire import Frame, decode_to_site, encode_from_site

Sections = dict[str, bytes | memoryview]


@dataclass(frozen=True)
class Asked:
    """A question that came with a secure sum; hand it back to :meth:`SecureSite.mask`."""

    question: bytes = field(repr=False)
    number: int
    members: tuple[str, ...]
    view: bytes = field(repr=False)
    held: Mapping[str, tuple[bytes, bytes]] = field(repr=False)
    label: str = ""


@dataclass(frozen=True)
class _Prepared:
    """Secrets of the coming sum, of which the shares are on their way."""

    number: int
    secret: bytes = field(repr=False)
    keys: Mapping[str, PairKeys] = field(repr=False)
    own: tuple[bytes, bytes] = field(repr=False)


@dataclass
class _Uploaded:
    """The sum that this site has answered and not yet helped to open."""

    asked: Asked
    whole: bool
    consented: bytes | None = None


class SecureSite:
    """Hides a site's numbers in sums.

    Parameters
    ----------
    name : as in the roster
    identity : this site's key; its public half stands in the roster
    roster : the sites that the operators agreed on
    secret : of this run and of nothing else, from which all of its keys and masks come, so that a
        site that was interrupted can be as it was; None takes fresh randomness

    Guarantees
    ----------
    * Whatever the coordinator sends, it gets at most one masked upload for each sum, and for each
      neighbour at most one kind of share: of its self-mask, or of its vault's key.
    * Nothing is opened for a list of fewer sites than the threshold, nor for a list on which
      fewer sites than the threshold agreed, unless nobody dropped.
    * A ``whole`` sum is opened for all who were asked, or for nobody.
    * A site that dropped stays out of the run.
    * A refused message changes nothing.
    """

    def __init__(
        self, name: str, identity: Identity, roster: Roster, secret: bytes | None = None
    ) -> None:
        if roster.keys.get(name) != identity.public:
            raise SecureSumError(f"the roster does not hold this key for {name!r}")
        self.name = name
        self._identity, self._roster = identity, roster
        self._randomness = Randomness(secret)
        self._run: str | None = None
        self._keys: RunKeys | None = None
        self._network: Network | None = None
        self._pairs: dict[str, Pair] = {}
        self._alive: frozenset[str] = frozenset()
        self._prepared: _Prepared | None = None
        self._uploaded: _Uploaded | None = None
        self._last = 0

    def __repr__(self) -> str:
        return f"SecureSite({self.name!r}, run={self._run!r})"

    def receive(self, data: bytes) -> bytes:
        """Answer any message but a question (see :meth:`open`)."""
        frame, _ = self._read(data)
        answers: dict[str, Callable[[Frame], bytes]] = {
            "hello": self._hello,
            "bundle": self._bundle,
            "agree": self._agree,
            "reveal": self._reveal,
        }
        if frame.kind not in answers:
            raise SecureSumError(f"{self.name}: {frame.kind!r} is not expected here")
        return answers[frame.kind](frame)

    # --- keys --------------------------------------------------------------------------------

    def _hello(self, frame: Frame) -> bytes:
        if self._run is not None:
            raise SecureSumError(f"{self.name}: the run has begun already")
        self._keys = RunKeys(self.name, self._identity, self._roster, frame.run, self._randomness)
        self._run = frame.run
        return self._send("keys", 0, {"keys": self._keys.signed})

    def _bundle(self, frame: Frame) -> bytes:
        if self._keys is None or self._network is not None or frame.number:
            raise SecureSumError(f"{self.name}: run keys are not expected now")
        present = self._roster.unpack(bytes(frame.sections["present"]))
        signed = slices(frame.sections["keys"], RUN_KEYS_BYTES, len(present), "the run keys")
        keys = dict(zip(present, signed, strict=True))
        if keys.get(self.name) != self._keys.signed:
            raise SecureSumError(f"{self.name}: its own run keys were left out or changed")
        self._enough(len(present))
        for name in present:
            if name != self.name:
                check_run_keys(self._roster, frame.run, name, keys[name])
        network = Network.of(self._roster, frame.run, keys)
        mine = network.neighbours[self.name]
        self._pairs = {name: self._keys.agree(name, keys[name]) for name in mine}
        self._network, self._alive = network, frozenset(present)
        # The run's X25519 keys have done their work: what is not kept cannot be taken.
        self._keys = None
        return self._send("shares", 1, self._prepare(1))

    def _prepare(self, number: int) -> Sections:
        """Fresh secrets for a sum: the sections that carry their shares, and the vault."""
        network = self._the_network()
        mine = network.neighbours[self.name]
        keys = {name: self._pairs[name].step() for name in mine}
        secret, vault_key = self._draw(32, "self", number), self._draw(32, "vault", number)
        holders = network.holders(self.name)
        points = [self._roster.position[name] + 1 for name in holders]
        threshold = network.degree.threshold
        size = shamir.noise_bytes(threshold)
        both = [
            shamir.split(value, threshold, points, self._draw(size, use, number))
            for value, use in ((secret, "self shares"), (vault_key, "vault shares"))
        ]
        shares = dict(zip(holders, zip(*both, strict=True), strict=True))
        boxes = [
            sealed(
                keys[name].seal, b"".join(shares[name]), self._run or "", number, self.name, name
            )
            for name in mine
        ]
        seeds = [keys[name].seed for name in mine]
        commitments = [commitment("self", secret), commitment("vault", vault_key)]
        commitments += [commitment("pair", seed) for seed in seeds]
        vault = sealed(vault_key, b"".join(seeds), self._run or "", number, self.name, "vault")
        self._prepared = _Prepared(number, secret, keys, shares[self.name])
        return {
            "boxes": b"".join(boxes),
            "vault": vault,
            "commitments": b"".join(commitments),
        }

    def _draw(self, size: int, use: str, number: int) -> bytes:
        return self._randomness.draw(size, use, self._run or "", number)

    # --- one sum -----------------------------------------------------------------------------

    def open(self, data: bytes) -> Asked:
        """Check a question's envelope; nothing changes until :meth:`mask`."""
        frame, hashed = self._read(data)
        ready, network = self._prepared, self._the_network()
        if frame.kind != "ask":
            raise SecureSumError(f"{self.name}: {frame.kind!r} is no question")
        if ready is None or frame.number != ready.number or frame.number <= self._last:
            raise SecureSumError(f"{self.name}: sum {frame.number} is not expected now")
        members = self._list(frame, "present", self._alive)
        senders = [name for name in network.neighbours[self.name] if name in members]
        boxes = slices(frame.sections["boxes"], BOX_BYTES, len(senders), "the shares")
        held = {self.name: ready.own}
        for name, box in zip(senders, boxes, strict=True):
            text = opened(
                ready.keys[name].open, box,
                f"{self.name}: the shares of {name!r} were changed or belong to another sum",
                frame.run, frame.number, name, self.name,
            )  # fmt: skip
            held[name] = (text[: shamir.SHARE_BYTES], text[shamir.SHARE_BYTES :])
        packed = bytes(frame.sections["present"])
        view = view_of(self._roster, network, frame.run, frame.number, packed, hashed)
        question = bytes(frame.sections["question"])
        return Asked(question, frame.number, members, view, held, frame.label)

    def mask(
        self,
        asked: Asked,
        values: NDArray[np.int64],
        shapes: Sequence[Sequence[int]],
        *,
        whole: bool = False,
    ) -> bytes:
        """This site's answer: its numbers under masks, with the shapes they had.

        ``x + PRG(self) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv)`` modulo 2^64.

        Raises
        ------
        OutOfRangeError
            For a number too large to be summed over the roster's sites.
        """
        ready = self._prepared
        if ready is None or asked.number != ready.number or asked.number <= self._last:
            raise SecureSumError(f"{self.name}: sum {asked.number} is not expected now")
        words = masks.to_ring(np.asarray(values).ravel(), len(self._roster.names))
        seeds = [(self_mask_seed(ready.secret, asked.view), 1)]
        seeds += [
            (pair_mask_seed(keys.seed, asked.view), 1 if name > self.name else -1)
            for name, keys in ready.keys.items()
            if name in asked.held
        ]
        masks.add_streams(words, seeds)
        sections: Sections = {
            "view": asked.view,
            "shapes": json.dumps([list(shape) for shape in shapes], separators=(",", ":")).encode(),
            "numbers": words.astype("<u8", copy=False).data.cast("B"),
        }
        answer = self._send("masked", asked.number, sections, asked.label)
        self._last, self._prepared = asked.number, None
        self._uploaded = _Uploaded(asked, whole)
        return answer

    def _agree(self, frame: Frame) -> bytes:
        """Sign a list from which somebody dropped; one list a sum."""
        sum_ = self._awaiting(frame)
        if sum_.consented is not None:
            raise SecureSumError(f"{self.name}: has agreed on a list for sum {frame.number}")
        if sum_.whole:
            raise SecureSumError(f"{self.name}: sum {frame.number} is opened for all or for nobody")
        if self._list(frame, "survivors", sum_.asked.members) == sum_.asked.members:
            raise SecureSumError(f"{self.name}: nobody dropped, nothing to agree on")
        survivors = bytes(frame.sections["survivors"])
        signature = self._identity.sign(consent_statement(sum_.asked.view, survivors))
        sum_.consented = survivors
        return self._send("consent", frame.number, {"consent": signature})

    def _reveal(self, frame: Frame) -> bytes:
        """Give the shares that open the sum, and those of the next sum's secrets."""
        sum_ = self._awaiting(frame)
        survivors = self._list(frame, "survivors", sum_.asked.members)
        if survivors != sum_.asked.members or sum_.consented is not None:
            self._check_consents(frame, sum_)
        kept = [name for name in sorted(sum_.asked.held) if name in survivors]
        lost = [name for name in sorted(sum_.asked.held) if name not in survivors]
        sections: Sections = {
            "selves": b"".join(sum_.asked.held[name][0] for name in kept),
            "vaults": b"".join(sum_.asked.held[name][1] for name in lost),
        }
        self._uploaded, self._alive = None, frozenset(survivors)
        return self._send("unmask", frame.number, sections | self._prepare(frame.number + 1))

    def _check_consents(self, frame: Frame, sum_: _Uploaded) -> None:
        survivors = bytes(frame.sections["survivors"])
        if sum_.consented != survivors:
            raise SecureSumError(f"{self.name}: did not agree on this list for {frame.number}")
        size = len(survivors)
        consents = frame.sections["consents"]
        signers = self._roster.unpack(bytes(consents[:size]))
        signatures = slices(consents[size:], SIGNATURE_BYTES, len(signers), "the consents")
        self._enough(len(signers))
        statement = consent_statement(sum_.asked.view, survivors)
        for name, signature in zip(signers, signatures, strict=True):
            self._roster.verify(name, signature, statement)

    # --- checks ------------------------------------------------------------------------------

    def _read(self, data: bytes) -> tuple[Frame, bytes]:
        frame, hashed = decode_to_site(data)
        if frame.site != self.name:
            raise SecureSumError(f"{self.name}: a message for {frame.site!r} came here")
        if self._run not in (None, frame.run) or (self._run is None and frame.kind != "hello"):
            raise SecureSumError(f"{self.name}: a message of another run")
        return frame, hashed

    def _awaiting(self, frame: Frame) -> _Uploaded:
        """The sum that this message wants opened, if it is the one that can be."""
        if self._uploaded is None or self._uploaded.asked.number != frame.number:
            raise SecureSumError(f"{self.name}: sum {frame.number} is not there to be opened")
        return self._uploaded

    def _list(
        self, frame: Frame, section: str, among: Sequence[str] | frozenset[str]
    ) -> tuple[str, ...]:
        """A list of sites: this one inside, all of them known and not dropped, and enough."""
        names = self._roster.unpack(bytes(frame.sections[section]))
        if self.name not in names:
            raise SecureSumError(f"{self.name}: is not on the list for sum {frame.number}")
        if not set(names) <= set(among):
            raise SecureSumError(f"{self.name}: the list names a site that dropped or never was")
        self._enough(len(names))
        network = self._the_network()
        holders = sum(name in names for name in network.holders(self.name))
        if holders < network.degree.threshold:
            raise BelowThresholdError(f"{self.name}: too few of its neighbours are on the list")
        return names

    def _enough(self, count: int) -> None:
        if count < self._roster.threshold:
            raise BelowThresholdError(
                f"{self.name}: {count} sites, but {self._roster.threshold} are needed"
            )

    def _the_network(self) -> Network:
        if self._network is None:
            raise SecureSumError(f"{self.name}: run keys have not been exchanged")
        return self._network

    def _send(self, kind: str, number: int, sections: Sections, label: str = "") -> bytes:
        frame = Frame(kind, self._run or "", number, self.name, sections, label)
        return encode_from_site(frame, self._identity, self._roster)
