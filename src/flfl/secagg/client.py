"""A site's side of the secure sum: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from flfl.secagg import shamir
from flfl.secagg.graph import Network
from flfl.secagg.keys import (
    BelowThresholdError,
    Identity,
    Pair,
    Roster,
    SecureSumError,
    agree,
    digest,
    draw,
    expand,
)
from flfl.secagg.masking import add_streams, opened, sealed, to_ring
from flfl.secagg.wire import Frame, decode, encode


@dataclass(frozen=True)
class Asked:
    """A question to be handed back to :meth:`SecureClient.mask`, and the shares held of the
    members' secrets: of the self-mask's secret and of the vault's key."""

    question: bytes = field(repr=False)
    number: int
    members: tuple[str, ...]
    view: bytes = field(repr=False)
    held: Mapping[str, tuple[bytes, bytes]] = field(repr=False)
    label: str = ""


@dataclass(frozen=True)
class _Keyed:
    """The site has sent its run keys."""

    run: str
    keys: tuple[X25519PrivateKey, ...] = field(repr=False)
    message: bytes = field(repr=False)


@dataclass(frozen=True)
class _Ready:
    """The shares of the coming sum's secrets are on their way; ``alive`` may be in it."""

    run: str
    network: Network
    alive: Collection[str]
    number: int
    pairs: Mapping[str, Pair] = field(repr=False)
    secret: bytes = field(repr=False)
    own: tuple[bytes, bytes] = field(repr=False)


@dataclass(frozen=True)
class _Answered:
    """The site has answered a sum and not yet helped to open it."""

    run: str
    ready: _Ready
    asked: Asked
    whole: bool
    consented: bytes | None = None


class SecureClient:
    """Hides a site's numbers in sums.

    All keys and masks of the run come from ``secret``, which is of this run alone, so that a site
    that was interrupted can be as it was; None takes fresh randomness.

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
        self.sign, self.verify = identity.sign, roster.verify
        self._identity, self._roster, self._secret = identity, roster, secret
        self._state: _Keyed | _Ready | _Answered | None = None

    def receive(self, data: bytes) -> bytes | Asked:
        """The answer to a message; a question is given back, to be answered with :meth:`mask`.
        Each message has one state in which it is taken: at any other time it is refused."""
        frame, state = decode(data), self._state
        if frame.site != self.name:
            raise SecureSumError(f"{self.name}: a message for {frame.site!r} came here")
        if state is not None and state.run != frame.run:
            raise SecureSumError(f"{self.name}: a message of another run")
        match frame.kind, state:
            case "hello", None:
                uses = ("run key masks", "run key shares")
                private = [draw(self._secret, 32, use, frame.run) for use in uses]
                keys = tuple(map(X25519PrivateKey.from_private_bytes, private))
                public = b"".join(key.public_key().public_bytes_raw() for key in keys)
                message = self._signed("keys", frame.run, 0, {"keys": public})
                self._state = _Keyed(frame.run, keys, message)
                return message
            case "bundle", _Keyed() if frame.number == 0:
                return self._bundle(frame, state)
            case "ask", _Ready() if frame.number == state.number:
                return self._ask(frame, state)
            case "agree", _Answered() if frame.number == state.asked.number:
                return self._agree(frame, state)
            case "reveal", _Answered() if frame.number == state.asked.number:
                return self._reveal(frame, state)
        raise SecureSumError(f"{self.name}: {frame.kind!r} of sum {frame.number} is not expected")

    def mask(
        self, asked: Asked, arrays: Sequence[NDArray[np.int64]], *, whole: bool = False
    ) -> bytes:
        """``x + PRG(self) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv)`` modulo 2^64."""
        ready = self._state
        if not isinstance(ready, _Ready) or asked.number != ready.number:
            raise SecureSumError(f"{self.name}: sum {asked.number} is not expected now")
        joined = np.concatenate([np.zeros(0, np.int64), *(np.ravel(array) for array in arrays)])
        words = to_ring(joined, len(self._roster.names))
        seeds = [(expand(ready.secret, b"self mask" + asked.view), 1)]
        for name, pair in ready.pairs.items():
            if name in asked.held:
                seed = expand(expand(pair.masks, b"seed"), b"pair mask" + asked.view)
                seeds.append((seed, 1 if name > self.name else -1))
        add_streams(words, seeds)
        parts = np.split(words, np.cumsum([np.size(array) for array in arrays])[:-1])
        masked = [part.reshape(np.shape(a)) for part, a in zip(parts, arrays, strict=True)]
        sections = {"view": asked.view, "arrays": masked}
        self._state = _Answered(ready.run, ready, asked, whole)
        return self._signed("masked", ready.run, asked.number, sections, asked.label)

    def _bundle(self, frame: Frame, state: _Keyed) -> bytes:
        """Take everyone's run keys, as their owners signed them for this run."""
        if state.message not in frame.sections["keys"]:
            raise SecureSumError(f"{self.name}: its own run keys were left out or changed")
        keys = {}
        for data in frame.sections["keys"]:
            own = decode(data, self._roster)
            if own.kind != "keys" or own.run != state.run or own.site in keys:
                raise SecureSumError(f"{self.name}: {own.site!r} did not send this as its run keys")
            keys[own.site] = own.sections["keys"]
        self._roster.enough(len(keys))
        network = Network.of(self._roster, state.run, keys)
        salt, pairs = self._roster.digest, {}
        for name in network.neighbours[self.name]:
            both = sorted((self.name, name))
            pairs[name] = agree(state.keys, keys[name], salt, state.run, *both)
        # The run's X25519 keys have done their work: what is not kept cannot be taken.
        self._state, sections = self._prepared(state.run, network, network.present, 1, pairs)
        return self._signed("shares", state.run, 1, sections)

    def _prepared(
        self, run: str, network: Network, alive: Collection[str], number: int,
        pairs: Mapping[str, Pair],
    ) -> tuple[_Ready, dict[str, object]]:  # fmt: skip
        """Fresh secrets for a sum, and the sections that carry their shares, and the vault."""
        holders, threshold = network.holders[self.name], network.threshold
        points = [self._roster.position[name] + 1 for name in holders]
        secrets, shares = [], []
        for use in ("self", "vault"):
            secrets.append(draw(self._secret, 32, use, run, number))
            size = shamir.NOISE_BYTES * (threshold - 1)
            noise = draw(self._secret, size, f"{use} shares", run, number)
            shares.append(shamir.split(secrets[-1], threshold, points, noise))
        both = dict(zip(holders, zip(*shares, strict=True), strict=True))
        seeds = [expand(pair.masks, b"seed") for pair in pairs.values()]
        committed = [*zip(("self", "vault"), secrets, strict=True), *(("pair", s) for s in seeds)]
        boxes = []
        for name, pair in pairs.items():
            key = expand(pair.channel, b"from " + self.name.encode())
            boxes.append(sealed(key, b"".join(both[name]), run, number, self.name, name))
        sections: dict[str, object] = {
            "boxes": boxes,
            "vault": sealed(secrets[1], b"".join(seeds), run, number, self.name, "vault"),
            "commitments": [digest("commitment", use, secret) for use, secret in committed],
        }
        return _Ready(run, network, alive, number, pairs, secrets[0], both[self.name]), sections

    def _ask(self, frame: Frame, ready: _Ready) -> Asked:
        """Check a question's envelope; nothing changes until it is answered."""
        present, boxes = frame.sections["present"], frame.sections["boxes"]
        members = self._listed(present, ready.alive, ready.network)
        senders = [name for name in ready.pairs if name in members]
        if len(boxes) != len(senders):
            raise SecureSumError(f"{self.name}: {len(boxes)} shares from {len(senders)} neighbours")
        held = {self.name: ready.own}
        for name, box in zip(senders, boxes, strict=True):
            problem = f"{self.name}: the shares of {name!r} were changed or belong to another sum"
            key = expand(ready.pairs[name].channel, b"from " + name.encode())
            text = opened(key, box, problem, ready.run, ready.number, name, self.name)
            held[name] = (text[: shamir.SHARE_BYTES], text[shamir.SHARE_BYTES :])
        question = frame.sections["question"]
        view = ready.network.view(ready.number, present, question)
        return Asked(question, ready.number, members, view, held, frame.label)

    def _agree(self, frame: Frame, state: _Answered) -> bytes:
        """Sign a list from which somebody dropped; one list a sum."""
        asked, survivors = state.asked, frame.sections["survivors"]
        if state.consented is not None:
            raise SecureSumError(f"{self.name}: has agreed on a list for sum {asked.number}")
        if state.whole:
            raise SecureSumError(f"{self.name}: sum {asked.number} is opened for all or for nobody")
        if self._listed(survivors, asked.members, state.ready.network) == asked.members:
            raise SecureSumError(f"{self.name}: nobody dropped, nothing to agree on")
        self._state = replace(state, consented=survivors)
        sections = {"view": asked.view, "survivors": survivors}
        return self._signed("consent", state.run, asked.number, sections)

    def _reveal(self, frame: Frame, state: _Answered) -> bytes:
        """Give the shares that open the sum, and those of the next sum's secrets."""
        asked, ready = state.asked, state.ready
        survivors = self._listed(frame.sections["survivors"], asked.members, ready.network)
        if survivors != asked.members or state.consented is not None:
            self._check_consents(frame, state)
        held = sorted(asked.held.items())
        shares = {
            "selves": [both[0] for name, both in held if name in survivors],
            "vaults": [both[1] for name, both in held if name not in survivors],
        }
        pairs = {name: pair.step() for name, pair in ready.pairs.items()}
        run, number = ready.run, ready.number
        self._state, sections = self._prepared(run, ready.network, survivors, number + 1, pairs)
        return self._signed("unmask", run, number, shares | sections)

    def _check_consents(self, frame: Frame, state: _Answered) -> None:
        """Enough sites have signed that they agree on this list, this one among them."""
        if state.consented != frame.sections["survivors"]:
            raise SecureSumError(f"{self.name}: did not agree on this list for {frame.number}")
        signers = set()
        for data in frame.sections["consents"]:
            consent = decode(data, self._roster)
            told = {"view": state.asked.view, "survivors": state.consented}
            if consent.kind != "consent" or consent.sections != told:
                raise SecureSumError(f"{self.name}: {consent.site!r} agreed on something else")
            signers.add(consent.site)
        self._roster.enough(len(signers))

    def _listed(self, bits: bytes, among: Collection[str], network: Network) -> tuple[str, ...]:
        """A list of sites: this one inside, all of them known and not dropped, and enough."""
        names = self._roster.unpack(bits)
        if self.name not in names:
            raise SecureSumError(f"{self.name}: is not on the list")
        if not set(names) <= set(among):
            raise SecureSumError(f"{self.name}: the list names a site that dropped or never was")
        self._roster.enough(len(names))
        if sum(name in names for name in network.holders[self.name]) < network.threshold:
            raise BelowThresholdError(f"{self.name}: too few of its neighbours are on the list")
        return names

    def _signed(
        self, kind: str, run: str, number: int, sections: Mapping[str, object], label: str = ""
    ) -> bytes:
        frame = Frame(kind, run, number, self.name, sections, label)
        return encode(frame, self._identity, self._roster)
