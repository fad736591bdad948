# %% [markdown]
# # A method of your own
#
# Anything with `fit` and `transform` on a time x sensor table can stand beside the methods of this package: it is scored on the same hidden readings, and gets intervals and a page.

# %%
import numpy as np
from sklearn.impute import KNNImputer

from flfl import recover
from flfl.datasets.synthetic import synthesize
from flfl.estimators.base import BaseRecoverer
from flfl.evaluation import evaluate

table, sensors = synthesize(12, 400, rng=np.random.default_rng(0))
result = recover(table, sensors, method=KNNImputer(n_neighbors=3))
print({name: round(score["mae"], 2) for name, score in result.scores.items()})

# %% [markdown]
# A method that wants to know where the sensors stand, or when the slots are, subclasses `BaseRecoverer` and implements one function.


# %%
class Neighbours(BaseRecoverer):
    """A gap is filled by the deviations of the other sensors, near ones counting more."""

    def __init__(self, reach=0.5):
        self.reach = reach

    def _estimate(self, Y, positions, sensors):
        # Y: readings (sensors x slots), NaN = missing; every entry is to be estimated.
        level = np.nanmedian(Y, axis=1, keepdims=True)
        off, known = np.nan_to_num(Y - level), np.isfinite(Y).astype(float)
        away = np.linalg.norm(sensors.coordinates[:, None] - sensors.coordinates, axis=2)
        weight = np.exp(-away / (self.reach * np.median(away)))
        np.fill_diagonal(weight, 0.0)
        return level + (weight @ off) / np.maximum(weight @ known, 1e-9)


rows = evaluate(
    table, sensors, rates=[0.5], patterns=["block"], methods=["linear", Neighbours(), "alone", "flfl"],
    options={"flfl": {"effort": "quick"}, "alone": {"effort": "quick"}},
)  # fmt: skip
for row in rows:
    print(f"{row.method:12s} mean absolute error {row.mae:.2f} in {row.seconds:.1f} s")

# %% [markdown]
# `flfl_bench.testing.check_recoverer(Neighbours())` checks the contract. [A method of one's own](../own-method.md) says how to register it under a name.
