# %% [markdown]
# # Three owners, and what leaks
#
# Three agencies with stations near each other; one process plays all of them. What does each gain from the others, what leaves it, and what can be read from that?
# The last part is an attack that you can change.

# %%
import numpy as np

from flfl import recover
from flfl.audit import audit
from flfl.datasets.catalogue import load_dataset

table, sensors = load_dataset("germany_pm10")
mine = np.isin(sensors.sites, ["Lower Saxony", "Hesse", "Rhineland-Palatinate"])
readings, sensors = table.values.iloc[:700].loc[:, mine], sensors.subset(mine)
print(readings.shape, "days x stations;", f"{readings.isna().mean().mean():.0%} missing")

# %% [markdown]
# ## What each gains
#
# `added_error=1` is the default: noise as large as what a sensor's neighbours in time leave open.

# %%
result = recover(readings, sensors, effort="quick", added_error=1.0)
for one in result.by_site():
    alone, network = one.mae["site"], one.mae["flfl"]
    print(
        f"{one.site}: {one.sensors} stations, error {alone:.2f} alone, {network:.2f} with the others"
    )

# %% [markdown]
# ## What left
#
# Never the readings: sums of noisy copies, and a few numbers for each sensor. The noise is in the readings' own unit.

# %%
print(
    result.traffic.bytes_up,
    "bytes up,",
    result.traffic.bytes_down,
    "down,",
    result.traffic.rounds,
    "rounds",
)
print(result.added_error.round(1).to_dict())

# %% [markdown]
# ## Attack it
#
# `audit` records all that the coordinator saw and attacks it. *Read* is the share (R²) of what only this sensor tells that an attack recovers.

# %%
report = audit(readings, sensors, attacks=["slot by slot", "everything else"])
for one in report.findings:
    worst, median = one.residual_read_max, one.residual_read_median
    print(f"{one.name}, by {one.adversary}: worst sensor {worst:.2f}, median {median:.2f}")
print("somebody who knows all but one reading reads at most", report.bound, "of it, in the mean")

# %% [markdown]
# Without noise, the same attacks read much more: the noise is what protects, not the sums.

# %%
report = audit(readings, sensors, attacks=["slot by slot", "everything else"], added_error=0)
for one in report.findings:
    worst, median = one.residual_read_max, one.residual_read_median
    print(f"{one.name}, by {one.adversary}: worst sensor {worst:.2f}, median {median:.2f}")

# %% [markdown]
# Change `added_error`, add stations, or write an attack of your own on `flfl audit --save-view view.npz` ([how](../audit.md)).
