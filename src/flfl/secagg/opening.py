"""Taking the masks off a sum, from the shares that the sites revealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flfl.secagg import masks, shamir
from flfl.secagg.errors import BelowThresholdError, SecureSumError
from flfl.secagg.identity import Roster
from flfl.secagg.views import (
    BOX_BYTES,
    COMMITMENT_BYTES,
    Network,
    commitment,
    opened,
    pair_mask_seed,
    self_mask_seed,
    slices,
)
from flfl.secagg.wire import Frame


@dataclass(frozen=True)
class Prepared:
    """What a site published about its secrets of one sum.

    Attributes
    ----------
    boxes : encrypted shares, by the neighbour who can open them
    vault : its pair seeds, under a key of which the neighbours hold shares
    self_mask, vault_key, pairs : commitments to its self-mask's secret, the vault's key and
        each pair seed
    """

    boxes: Mapping[str, bytes]
    vault: bytes
    self_mask: bytes
    vault_key: bytes
    pairs: Mapping[str, bytes]

    @classmethod
    def read(cls, frame: Frame, network: Network) -> Prepared:
        """From a site's message; refuses parts of a wrong length."""
        mine = network.neighbours[frame.site]
        n, parts = len(mine), frame.sections
        boxes = slices(parts["boxes"], BOX_BYTES, n, f"{frame.site}: the shares")
        hashes = slices(
            parts["commitments"], COMMITMENT_BYTES, n + 2, f"{frame.site}: the commitments"
        )
        (vault,) = slices(parts["vault"], 32 * n + 16, 1, f"{frame.site}: the vault")
        return cls(
            dict(zip(mine, boxes, strict=True)),
            vault,
            hashes[0],
            hashes[1],
            dict(zip(mine, hashes[2:], strict=True)),
        )


@dataclass(frozen=True)
class Shares:
    """Shares that one site revealed: of survivors' self-masks and of dropped sites' vault keys."""

    selves: Mapping[str, bytes] = field(repr=False)
    vaults: Mapping[str, bytes] = field(repr=False)


def open_sum(
    total: NDArray[np.uint64],
    roster: Roster,
    network: Network,
    run: str,
    number: int,
    prepared: Mapping[str, Prepared],
    survivors: Sequence[str],
    revealed: Mapping[str, Shares],
    view: bytes,
) -> None:
    """Subtract every mask that is left in the total, in place.

    ``total - sum_{u in survivors} PRG(self_u) -+ sum_{d dropped} sum_{u} PRG(s_ud)``

    Guarantees
    ----------
    * Every secret is checked against its owner's commitment before it is used: a wrong share or a
      wrong vault is an error that names the site, never a wrong sum.
    """
    secrets = _Secrets(roster, network.degree.threshold)
    seeds: list[tuple[bytes, int]] = []
    for name in survivors:
        shares = {h: r.selves[name] for h, r in revealed.items() if name in r.selves}
        secret = secrets.join(name, shares)
        if commitment("self", secret) != prepared[name].self_mask:
            raise SecureSumError(f"the shares of {name!r} do not give the secret it committed to")
        seeds.append((self_mask_seed(secret, view), -1))
    present = set(survivors)
    for name in sorted(set(prepared) - present):
        left = [other for other in network.neighbours[name] if other in present]
        if not left:
            continue
        key = secrets.join(
            name, {h: r.vaults[name] for h, r in revealed.items() if name in r.vaults}
        )
        vault = _open_vault(prepared[name], key, network.neighbours[name], run, number, name)
        # A survivor before the dropped site in the order added their mask, one after it
        # subtracted it.
        seeds += [(pair_mask_seed(vault[o], view), -1 if o < name else 1) for o in left]
    masks.add_streams(total, seeds)


class _Secrets:
    """Joins shares; holders that recur use the same Lagrange weights."""

    def __init__(self, roster: Roster, threshold: int) -> None:
        self._roster, self._threshold = roster, threshold
        self._weights: dict[tuple[int, ...], list[int]] = {}

    def join(self, owner: str, shares: Mapping[str, bytes]) -> bytes:
        by_point = {self._roster.position[holder] + 1: s for holder, s in shares.items()}
        if len(by_point) < self._threshold:
            raise BelowThresholdError(
                f"{len(by_point)} shares of {owner!r} are left and {self._threshold} are needed:"
                " the run stops, and the sum under way stays hidden"
            )
        points = tuple(sorted(by_point)[: self._threshold])
        if points not in self._weights:
            self._weights[points] = shamir.weights_at_zero(points)
        try:
            return shamir.join(by_point, self._threshold, self._weights[points])
        except SecureSumError as error:
            raise SecureSumError(f"{owner!r}: {error}") from None


def _open_vault(
    prepared: Prepared, key: bytes, mine: Sequence[str], run: str, number: int, name: str
) -> dict[str, bytes]:
    if commitment("vault", key) != prepared.vault_key:
        raise SecureSumError(f"the shares of {name!r} do not give the key it committed to")
    problem = f"the vault of {name!r} does not open with its own key"
    text = opened(key, prepared.vault, problem, run, number, name, "vault")
    seeds = dict(zip(mine, slices(text, 32, len(mine), "the vault's seeds"), strict=True))
    for other, seed in seeds.items():
        if commitment("pair", seed) != prepared.pairs[other]:
            raise SecureSumError(f"the vault of {name!r} holds another seed than it committed to")
    return seeds
