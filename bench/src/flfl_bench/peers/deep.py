"""``saits``, ``brits``, ``imputeformer``: networks of PyPOTS, trained on windows of the table."""

from __future__ import annotations

import contextlib
import io
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from flfl.config import Count, Share, Whole
from flfl.estimators.base import Array, BaseRecoverer
from flfl.io.sensors import Sensors
from flfl.paper.scaling import Scaling

Options = dict[str, Any]
HELD = 0.1
"""Share of the training readings on which training is stopped."""


@dataclass(kw_only=True, eq=False, repr=False)
class _Deep(BaseRecoverer):
    """A network of PyPOTS, with the sensors as features of windows in time.

    Central: it pools the readings. Windows overlap; the nearer a slot is to the middle of a window,
    the more that window counts. Training stops when the error on a tenth of the training readings
    has not fallen for ``patience`` epochs, or after ``epochs``.
    """

    _unit_free: ClassVar[bool] = False  # single precision
    window: Count = 48
    epochs: Count = 100
    patience: Count = 10
    dropout: Share = 0.1
    random_state: Whole = 0

    @abstractmethod
    def _network(self, networks: Any, steps: int, features: int, training: Options) -> Any:
        """The model of PyPOTS for windows of this size."""

    def _estimate(self, Y: Array, positions: Array, sensors: Sensors) -> Array:
        import pypots.imputation as networks
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(self.random_state)
        rng = np.random.default_rng(self.random_state)
        # PyPOTS hides readings by numpy's global generator.
        np.random.seed(self.random_state)
        scaling = Scaling.fit(Y)
        Z = scaling.apply(Y).T
        steps = min(self.window, len(Z))
        held = ~np.isnan(Z) & (rng.random(Z.shape) < HELD)
        kept = np.where(held, np.nan, Z)
        starts = window_starts(len(Z), steps)
        seen, whole = (np.stack([X[s : s + steps] for s in starts]) for X in (kept, Z))
        training: Options = {
            "epochs": self.epochs,
            "patience": min(self.patience, self.epochs),
            "batch_size": 32,
            "device": "cpu",
            "verbose": False,
        }
        with contextlib.redirect_stdout(io.StringIO()):
            network = self._network(networks, steps, Z.shape[1], training)
            network.fit({"X": seen}, {"X": seen, "X_ori": whole})
            filled = np.asarray(network.impute({"X": whole}), dtype=float)
        return scaling.undo(joined(filled, starts, len(Z)).T)


def window_starts(slots: int, steps: int, windows: int = 200) -> list[int]:
    """Where about so many windows start, more where every slot needs to be in two of them.

    >>> window_starts(10, 4, 3)
    [0, 2, 4, 6]
    >>> window_starts(9, 4, 2)
    [0, 2, 4, 5]
    """
    last = slots - steps
    step = max(1, min(steps // 2, last // windows))
    return sorted({*range(0, last + 1, step), last})


def joined(windows: Array, starts: list[int], slots: int) -> Array:
    """Windows (n, steps, features) as one table: where two cover a slot, the nearer to its middle
    weighs more."""
    steps = windows.shape[1]
    weight = 1.0 - np.abs(np.linspace(-1, 1, steps + 2)[1:-1])
    total, sums = np.zeros((slots, 1)), np.zeros((slots, windows.shape[2]))
    for start, window in zip(starts, windows, strict=True):
        total[start : start + steps] += weight[:, None]
        sums[start : start + steps] += weight[:, None] * window
    return sums / total


@dataclass(kw_only=True, eq=False, repr=False)
class SAITS(_Deep):
    """Two blocks of self-attention over the slots of a window, masked on the diagonal."""

    def _network(self, networks: Any, steps: int, features: int, training: Options) -> Any:
        return networks.SAITS(
            n_steps=steps, n_features=features, n_layers=2, d_model=128, n_heads=4, d_k=32, d_v=32,
            d_ffn=128, dropout=self.dropout, **training,
        )  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class BRITS(_Deep):
    """A recurrent network that runs through a window in both directions."""

    def _network(self, networks: Any, steps: int, features: int, training: Options) -> Any:
        return networks.BRITS(n_steps=steps, n_features=features, rnn_hidden_size=64, **training)


@dataclass(kw_only=True, eq=False, repr=False)
class ImputeFormer(_Deep):
    """Attention over slots and over sensors with projections of low rank, made for networks."""

    window: Count = 24
    epochs: Count = 40

    def _network(self, networks: Any, steps: int, features: int, training: Options) -> Any:
        return networks.ImputeFormer(
            n_steps=steps, n_features=features, n_layers=2, d_input_embed=16,
            d_learnable_embed=32, d_proj=8, d_ffn=64, n_temporal_heads=4, dropout=self.dropout,
            input_dim=1, output_dim=1, **training,
        )  # fmt: skip
