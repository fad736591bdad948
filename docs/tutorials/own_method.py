# %% [markdown]
# # A method of your own
#
# You will fill a table with a method of scikit-learn, write one yourself in ten lines, and compare both with this package on the same hidden readings.

# %%
import numpy as np
from sklearn.impute import KNNImputer

from flfl import recover
from flfl.datasets.synthetic import synthesize

table, sensors = synthesize(12, 400, rng=np.random.default_rng(0))
result = recover(table, sensors, method=KNNImputer(n_neighbors=3))
for name, score in result.scores.items():
    print(f"{name:12s} {score['mae']:.2f}")

# %% [markdown]
# Every run scores two simple ways beside the method, each sensor by itself: a smooth curve (here `alone`; as a method its name is `pchip`) and straight lines (`linear`). The result
# has intervals and a page, like any other.
#
# ## Ten lines of your own
#
# A method that wants to know where the sensors stand subclasses `BaseRecoverer` and implements one function. This one fills a gap with the deviations of the other sensors, near ones
# counting more.

# %%
from flfl.estimators.base import BaseRecoverer


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


# %% [markdown]
# ## Compare
#
# Half of the readings are kept (`rates`), the others hidden in blocks, the same for every method.

# %% alt="Bars: the error of five methods on the same hidden readings; the figures are printed above"
import matplotlib.pyplot as plt

from flfl.evaluation import evaluate

rows = evaluate(
    table,
    sensors,
    rates=[0.5],
    patterns=["block"],
    methods=["linear", "pchip", Neighbours(), KNNImputer(n_neighbors=3), "flfl"],
    options={"flfl": {"effort": "quick"}},
)
plt.figure(figsize=(7, 2.4))
plt.barh([row.method for row in rows], [row.mae for row in rows])
plt.gca().invert_yaxis(), plt.xlabel("mean absolute error on hidden readings")
plt.show()
for row in rows:
    print(f"{row.method:12s} {row.mae:6.2f}")

# %% [markdown]
# **Next.** `flfl_bench.testing.check_recoverer(Neighbours())` checks the contract. [A method of your own](../own-method.md) says how to name it on the command line and in experiments;
# [other methods](../baselines.md) says which ones to beat.
