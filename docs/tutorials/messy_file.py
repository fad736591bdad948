# %% [markdown]
# # A messy agency file
#
# Files come as somebody's spreadsheet saved them: a title above the table, a row of units, semicolons and decimal commas, days before months, codes for
# *missing*, a column with the mean of all. Here is one, made from real daily PM10 of twelve German stations.

# %%
from pathlib import Path

import numpy as np

from flfl import recover
from flfl.datasets.catalogue import load_dataset

table, sensors = load_dataset("germany_pm10")
some = table.values.iloc[365:730, :12].round(1)
rows = ["Luftqualitaet, Tagesmittelwerte;;;", "Stand: 12.01.2007;;;"]
rows.append(";".join(["Datum", *some.columns, "Mittel"]))
rows.append(";".join(["", *["ug/m3"] * 13]))
for day, values in some.iterrows():
    cells = ["-999" if np.isnan(v) else f"{v:.1f}".replace(".", ",") for v in values]
    mean = "" if values.isna().all() else f"{values.mean():.1f}".replace(".", ",")
    rows.append(";".join([f"{day:%d.%m.%Y}", *cells, mean]))
rows[40] = rows[40].replace(rows[40].split(";")[3], "< 2,0")  # below the detection limit
Path("station_report.csv").write_text("\n".join(rows) + "\n", encoding="latin-1")
print("\n".join(row[:70] for row in rows[:6]))

# %% [markdown]
# No option is needed. What was noticed is told, and each choice can be settled by an option of the same name on the command line.

# %%
result = recover("station_report.csv", effort="quick")
for note in result.notes:
    print("-", note)

# %% [markdown]
# Every cell is *observed*, *recovered* or *refused*, and a recovered one has an interval.

# %%
print(result.flags.stack().value_counts())
filled = result.flags == "recovered"
first = filled.stack()[lambda x: x].index[0]
print(first, result.values.loc[first], result.lower.loc[first], result.upper.loc[first])

# %% [markdown]
# How good is it? Readings that were hidden from the method say so, beside plain interpolation.

# %%
print(result.verdict)

# %%
axes = result.plot(str(first[1]))

# %% [markdown]
# The file that is written has the layout of the one that was read: same separator, same dates, every observed number as it was.

# %%
result.save("filled.csv")
print(Path("filled.csv").read_text(encoding="latin-1")[:300])
