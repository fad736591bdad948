# %% [markdown]
# # Three owners, and what leaks
#
# Three agencies have stations near each other; here one process plays all of them. You will see what each gains from the others and what leaves it, and then attack that yourself.

# %%
import matplotlib.pyplot as plt
import numpy as np

from flfl import recover
from flfl.audit import audit
from flfl.datasets.catalogue import load_dataset

table, sensors = load_dataset("germany_pm10")
mine = np.isin(sensors.sites, ["Lower Saxony", "Hesse", "Rhineland-Palatinate"])
readings, sensors = table.values.iloc[:700].loc[:, mine], sensors.subset(mine)
print(f"{readings.shape[1]} stations, {len(readings)} days")

# %% [markdown]
# ## What each gains
#
# `added_error=1` is the default: noise as large as the error with which a reading is predicted from those before and after it. `site` is what an owner reaches by itself.

# %%
result = recover(readings, sensors, effort="quick", added_error=1.0)
for one in result.by_site():
    alone, network = one.mae["site"], one.mae["flfl"]
    print(f"{one.site:22s}{one.sensors} stations   alone {alone:.2f}   together {network:.2f}")

# %% [markdown]
# These owners have four to six stations each, so they gain little. Owners of one station gain most ([results](../results.md)).
#
# ## What left
#
# Sums of noisy copies, and a few numbers for each sensor. The noise is in the readings' own unit.

# %%
traffic = result.traffic
print(f"{traffic.bytes_up:,} bytes up, {traffic.bytes_down:,} down, in {traffic.rounds} rounds")
print(result.added_error.round(1).sort_values().to_string())

# %% [markdown]
# ## Attack it
#
# `audit` plays the same network, records all that the coordinator sees, and attacks it. Take the best case for an attacker: everybody else works together, and holds the noisy copies of a
# station. Here are a reading and its copy, day by day.

# %% alt="Sixty days of one station: the readings as a line, the noisy copies as points scattered around it"
report = audit(readings, sensors, attacks=["slot by slot", "everything else"])
case = report.case
copies, station, days = case.to_raw(case.copies), 0, slice(300, 360)
plt.figure(figsize=(8, 3))
plt.plot(case.raw[station, days], label="what the owner has")
plt.plot(copies[station, days], ".", label="what others can have at most")
plt.ylabel("ug/m3"), plt.legend(), plt.title(case.ids[station])
plt.show()

# %% [markdown]
# How much of what *only this station* knows do attacks recover? `1` is all of it, `0` is nothing (R²).


# %%
def show(report):
    for one in report.findings:
        worst, median = one.residual_read_max, one.residual_read_median
        print(f"{one.adversary:28s} worst station {worst:.2f}   median {median:.2f}")


show(report)

# %% [markdown]
# Without noise, the same attacks read much more. The noise is what protects, not the sums:

# %%
show(audit(readings, sensors, attacks=["slot by slot", "everything else"], added_error=0))

# %% [markdown]
# ## Your own attack
#
# The coordinator sees `z`, a few sums for each day. Can a regression read a station from them, if somebody knows half of its readings already? Change this cell, and try.

# %%
z = case.network.z / (case.network.z.std(axis=0) + 1e-12)
read = []
for residual, known in zip(case.wanted.residual, case.known, strict=True):
    days = np.random.default_rng(0).permutation(np.flatnonzero(known))
    learn, test = np.array_split(days, 2)
    A, y = z[learn], residual[learn]
    w = np.linalg.solve(A.T @ A + 10 * np.eye(A.shape[1]), A.T @ y)
    read.append(max(np.corrcoef(residual[test], z[test] @ w)[0, 1], 0) ** 2)
print(f"my attack: worst station {max(read):.2f}, median {np.median(read):.2f}")

# %% [markdown]
# **Next.** [The audit](../audit.md) lists all attacks; [what is protected](../threat-model.md) says what the figures mean. If you read more than the copies tell,
# [please report it](../security.md).
