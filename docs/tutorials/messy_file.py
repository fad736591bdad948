# %% [markdown]
# # A messy agency file
#
# You will fill a file as agencies have them, without editing it first, and read what was noticed on the way.
#
# Here is such a file, made from real daily PM10 of twelve German stations: two lines of titles, a row of units, semicolons and decimal commas, days before months, `-999` for
# missing, a reading below the detection limit, and a column with the mean of all.

# %% tags=["aside"]
from pathlib import Path

from flfl.datasets.catalogue import load_dataset

table, _ = load_dataset("germany_pm10")
some = table.values.iloc[365:730].dropna(axis=1, thresh=250).iloc[:, :12].round(1)
some["Mittel"] = some.mean(axis=1).round(1)
cells = some.map(lambda value: f"{value:.1f}".replace(".", ",")).replace("nan", "-999")
cells.iloc[40, 3] = "< 2,0"
lines = [f"{day:%d.%m.%Y};" + ";".join(row) for day, row in cells.T.items()]
titles = ["Luftqualität, Tagesmittelwerte", "Stand: 12.01.2007"]
names = ["Datum;" + ";".join(some.columns), ";ug/m3" * 13]
Path("report.csv").write_text("\n".join([*titles, *names, *lines]) + "\n", encoding="latin-1")
print("\n".join(line[:72] for line in (*titles, *names, *lines[:3])))

# %% [markdown]
# ## Fill it
#
# No option is needed. Notes tell what was understood, and each choice can be settled by an option.

# %%
from flfl import recover

result = recover("report.csv", effort="quick")
print("\n".join(f"- {note}" for note in result.notes))

# %% [markdown]
# ## Look at it
#
# In a notebook, a result shows itself: how much was missing, how good the filling is, and where to look closer.

# %%
result  # noqa: B018

# %% [markdown]
# One sensor as a picture, with the interval of each filled value:

# %% alt="One sensor over a year: its readings, the values that were filled in, and their intervals"
filled = result.flags == "recovered"
axes = result.plot(filled.sum().idxmax())

# %% [markdown]
# Every cell says what it is. A recovered one has a value and its limits:

# %%
print(result.flags.stack().value_counts().to_string(), "\n")
day, sensor = filled.stack()[lambda cell: cell].index[0]
low, value, high = (part.loc[day, sensor] for part in (result.lower, result.values, result.upper))
print(f"{sensor} on {day:%d %B %Y}: {value:.1f}, probably between {low:.1f} and {high:.1f}")

# %% [markdown]
# ## Write it
#
# The file has the layout of the one that was read: titles, separator, dates, and every observed number as it was written. The row of units and the column of means are left out.

# %%
result.save("filled.csv")
print("\n".join(line[:72] for line in Path("filled.csv").read_text("latin-1").splitlines()[:6]))

# %% [markdown]
# **Next.** These stations have no owners and no positions here, so each was an owner of its own. [Three owners](three_owners.md) gives them both.
# [Files that are read](../inputs.md) has every rule.
