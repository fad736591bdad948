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

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.secagg import shamir, wire
from flfl.secagg.graph import Network
from flfl.secagg.keys import BelowThresholdError, Roster, SecureSumError, digest, expand
from flfl.secagg.masking import add_streams, from_ring, opened
from flfl.secagg.wire import Frame

Envelope = tuple[str, bytes]


@dataclass(frozen=True)
class Outcome:
    """A finished sum: the arrays of the sites' answers added up, and whose they are."""

    arrays: tuple[NDArray[np.int64], ...]
    sites: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """A site's secrets of one sum: encrypted shares by the neighbour who can open them; the vault
    (its pair seeds under a key of which the neighbours hold shares); commitments to its self-mask's
    secret, to the vault's key and to each pair seed."""

    boxes: Mapping[str, bytes]
    vault: bytes
    self_mask: bytes
    vault_key: bytes
    pairs: Mapping[str, bytes]


@dataclass
class _Sum:
    """The sum under way, with the shares that were revealed by owner of the secret and point."""

    members: tuple[str, ...]
    prepared: Mapping[str, Prepared]
    view: bytes
    label: str
    whole: bool
    total: NDArray[np.uint64] | None = None
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    survivors: tuple[str, ...] = ()
    selves: dict[str, dict[int, bytes]] = field(default_factory=dict, repr=False)
    vaults: dict[str, dict[int, bytes]] = field(default_factory=dict, repr=False)


class SecureServer:
    """Carries masked numbers and shares between sites, and opens sums.

    ``phase`` is the kind of message that is awaited; ``"ready"`` for a question, ``"failed"`` when
    too few sites were left or a sum could not be opened: the run is over. ``sites`` are not gone.

    Guarantees
    ----------
    * A sum equals, bit by bit, the sum of the numbers of ``Outcome.sites``, at least the
      threshold of them; a wrong one is an error, never a result.
    * With every site either answering or reported :meth:`absent`, each sum ends: opened, or given
      up below the threshold with nothing revealed.
    * A refused message changes nothing.
    """

    def __init__(self, roster: Roster, run: str) -> None:
        self.phase, self.sites = "new", roster.names
        self._roster, self._run, self._number = roster, run, 0
        self._waiting, self._got = set[str](), dict[str, Any]()
        # Before the first sum nobody is in the run, and there is nothing to add up.
        self._network = Network((), b"", 0, {}, {})
        self._sum = _Sum((), {}, b"", "", False)
        self._prepared: Mapping[str, Prepared] = {}

    def start(self) -> list[Envelope]:
        """The first messages."""
        if self.phase != "new":
            raise SecureSumError("the run has begun already")
        return self._send("keys", "hello", {name: {} for name in self.sites})

    def ask(self, question: bytes, label: str = "", *, whole: bool = False) -> list[Envelope]:
        """Ask a question whose answers are to be summed; ``whole``: over all of them or not."""
        if self.phase != "ready":
            raise SecureSumError("the last sum is not finished")
        prepared = {name: self._prepared[name] for name in self.sites}
        for name, mine in prepared.items():
            for other, seed in mine.pairs.items():
                if other in prepared and prepared[other].pairs[name] != seed:
                    raise SecureSumError(f"{name!r} and {other!r} do not have the same pair seed")
        packed = self._roster.pack(self.sites)
        view = self._network.view(self._number, packed, question)
        self._sum = _Sum(self.sites, prepared, view, label, whole)
        bodies = {}
        for name in self.sites:
            near = [other for other in self._network.neighbours[name] if other in prepared]
            boxes = [prepared[other].boxes[name] for other in near]
            bodies[name] = {"present": packed, "boxes": boxes, "question": question}
        return self._send("masked", "ask", bodies)

    def receive(self, data: bytes) -> list[Envelope] | Outcome:
        """Take a site's message; returns what to send now, or the sum that it finishes."""
        frame = wire.decode(data, self._roster)
        site, sections = frame.site, frame.sections
        if (frame.run, frame.number, frame.kind) != (self._run, self._number, self.phase):
            raise SecureSumError(f"{site}: {frame.kind!r} of sum {frame.number} is not awaited")
        if site not in self._waiting:
            why = "answers twice" if site in self._got else "was not asked, or was given up"
            raise SecureSumError(f"{site}: {why}")
        match frame.kind:
            case "keys":
                self._got[site] = data, sections["keys"]
            case "masked":
                self._add(frame)
                self._got[site] = None
            case "consent":
                survivors = self._roster.pack(self._sum.survivors)
                if sections != {"view": self._sum.view, "survivors": survivors}:
                    raise SecureSumError(f"{site}: agrees on something else than was asked")
                self._got[site] = data
            case "shares" | "unmask":
                self._got[site] = self._take_shares(frame)
        self._waiting.discard(site)
        return self._advance()

    def absent(self, site: str) -> list[Envelope] | Outcome:
        """A site is gone for good; returns what to send now, or the sum that this finishes."""
        if site not in self._roster.keys:
            raise SecureSumError(f"{site!r} is not in the roster")
        self.sites = tuple(name for name in self.sites if name != site)
        if site not in self._waiting:
            return []
        self._waiting.discard(site)
        return self._advance()

    def can_lose(self, site: str) -> bool:
        """Whether the run could go on without a site."""
        if self.phase == "masked" and self._sum.whole and site in self._waiting:
            return False
        # While a phase is under way its answers so far count; whoever left is missed in the next.
        here = {*self._waiting, *self._got} if self._waiting else set(self.sites)
        return len(here & set(self.sites) - {site}) >= self._roster.threshold

    def _add(self, frame: Frame) -> None:
        """Add a site's masked numbers."""
        sum_, arrays = self._sum, frame.sections["arrays"]
        if frame.sections["view"] != sum_.view:
            raise SecureSumError(f"{frame.site}: answers something else than was asked")
        shapes = [array.shape for array in arrays]
        words = np.concatenate([np.zeros(0, np.uint64), *(array.ravel() for array in arrays)])
        if sum_.total is None:
            sum_.total, sum_.shapes = words, shapes
        elif shapes != sum_.shapes:
            raise SecureSumError(f"{frame.site}: answers in another shape than the others")
        else:
            sum_.total += words

    def _take_shares(self, frame: Frame) -> Prepared:
        """The shares that a site reveals, and what it published for the next sum."""
        mine, parts, sum_ = self._network.neighbours[frame.site], frame.sections, self._sum
        lengths = (len(parts["boxes"]), len(parts["commitments"]), len(parts["vault"]))
        if lengths != (len(mine), len(mine) + 2, 32 * len(mine) + 16):
            raise SecureSumError(f"{frame.site}: wrong numbers of shares or commitments")
        if frame.kind == "unmask":
            held = [name for name in self._network.holders[frame.site] if name in sum_.members]
            kept = [name for name in held if name in sum_.survivors]
            lost = [name for name in held if name not in sum_.survivors]
            selves, vaults = parts["selves"], parts["vaults"]
            if (len(selves), len(vaults)) != (len(kept), len(lost)):
                raise SecureSumError(f"{frame.site}: reveals another number of shares than asked")
            point = self._roster.position[frame.site] + 1
            for names, shares, store in ((kept, selves, sum_.selves), (lost, vaults, sum_.vaults)):
                for name, share in zip(names, shares, strict=True):
                    store.setdefault(name, {})[point] = share
        self_mask, vault_key, *seeds = parts["commitments"]
        boxes, pairs = (dict(zip(mine, each, strict=True)) for each in (parts["boxes"], seeds))
        return Prepared(boxes, parts["vault"], self_mask, vault_key, pairs)

    def _advance(self) -> list[Envelope] | Outcome:
        """Go on when everyone who was asked has answered or is gone."""
        if self._waiting:
            return []
        got, sum_, roster = self._got, self._sum, self._roster
        phase, self.phase = self.phase, "failed"  # and so it stays when any of this fails
        roster.enough(len(got))
        body: dict[str, Any] = {}
        match phase:
            case "keys":
                keys = {name: public for name, (_, public) in got.items()}
                self._network = Network.of(roster, self._run, keys)
                body["keys"] = [got[name][0] for name in sorted(got)]
                envelopes = self._send("shares", "bundle", dict.fromkeys(sorted(got), body))
                self._number = 1
                return envelopes
            case "masked":
                sum_.survivors = tuple(sorted(got))
                body |= {"survivors": roster.pack(got), "consents": []}
                if sum_.survivors == sum_.members:
                    return self._send("unmask", "reveal", dict.fromkeys(sum_.survivors, body))
                if sum_.whole:
                    lost = ", ".join(sorted(set(sum_.members) - set(got)))
                    raise BelowThresholdError(
                        f"{lost} left during {sum_.label!r}, which is opened for all sites or for"
                        " none: the run stops, and the sum stays hidden. Run again when all are"
                        " back"
                    )
                return self._send("consent", "agree", dict.fromkeys(sum_.survivors, body))
            case "consent":
                consents = [got[name] for name in sorted(got)[: roster.threshold]]
                body |= {"survivors": roster.pack(sum_.survivors), "consents": consents}
                return self._send("unmask", "reveal", dict.fromkeys(sorted(got), body))
        outcome = self._opened(sum_) if phase == "unmask" else None
        self._number += outcome is not None
        self.phase, self._prepared = "ready", got
        return outcome or []

    def _opened(self, sum_: _Sum) -> Outcome:
        """``total - sum_{u in survivors} PRG(self_u) -+ sum_{d dropped} sum_{u} PRG(s_ud)``, with
        every secret checked against its owner's commitment."""
        assert sum_.total is not None
        seeds: list[tuple[bytes, int]] = []
        for name in sum_.survivors:
            secret = self._joined(name, "self", sum_.selves, sum_.prepared[name].self_mask)
            seeds.append((expand(secret, b"self mask" + sum_.view), -1))
        for name in sorted(set(sum_.members) - set(sum_.survivors)):
            mine, prepared = self._network.neighbours[name], sum_.prepared[name]
            left = [other for other in mine if other in sum_.survivors]
            if not left:
                continue
            key = self._joined(name, "vault", sum_.vaults, prepared.vault_key)
            problem = f"the vault of {name!r} does not open with its own key"
            text = opened(key, prepared.vault, problem, self._run, self._number, name, "vault")
            vault = {other: text[32 * i : 32 * i + 32] for i, other in enumerate(mine)}
            for other, seed in vault.items():
                if digest("commitment", "pair", seed) != prepared.pairs[other]:
                    raise SecureSumError(f"the vault of {name!r} holds a seed it did not commit to")
            for other in left:  # before the dropped site it added the mask, after it subtracted
                seed = expand(vault[other], b"pair mask" + sum_.view)
                seeds.append((seed, -1 if other < name else 1))
        add_streams(sum_.total, seeds)
        total = from_ring(sum_.total, len(sum_.survivors), len(self._roster.names))
        ends = np.cumsum([math.prod(shape) for shape in sum_.shapes])
        parts = zip(np.split(total, ends[:-1]), sum_.shapes, strict=True)
        return Outcome(tuple(part.reshape(shape) for part, shape in parts), sum_.survivors)

    def _joined(
        self, owner: str, use: str, revealed: Mapping[str, Mapping[int, bytes]], committed: bytes
    ) -> bytes:
        """A secret of a site, from the shares of it that were revealed."""
        shares, needed = revealed.get(owner, {}), self._network.threshold
        if len(shares) < needed:
            raise BelowThresholdError(
                f"{len(shares)} shares of {owner!r} are left and {needed} are needed: the run"
                " stops, and the sum under way stays hidden"
            )
        try:
            secret = shamir.join(shares, needed)
        except SecureSumError as error:
            raise SecureSumError(f"{owner!r}: {error}") from None
        if digest("commitment", use, secret) != committed:
            raise SecureSumError(f"the shares of {owner!r} do not give the secret it committed to")
        return secret

    def _send(self, awaited: str, kind: str, bodies: Mapping[str, Any]) -> list[Envelope]:
        """Messages to those of the sites who are not gone; their answers are awaited next."""
        here = [name for name in bodies if name in self.sites]
        self.phase = "failed"  # and so it stays when too few are left
        self._roster.enough(len(here))
        self.phase, self._waiting, self._got = awaited, set(here), {}
        label = self._sum.label if kind == "ask" else ""
        frames = [Frame(kind, self._run, self._number, n, bodies[n], label) for n in here]
        return [(frame.site, wire.encode(frame)) for frame in frames]
