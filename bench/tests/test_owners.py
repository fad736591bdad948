"""Owners that are made up, and what federation is worth to them."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from flfl.datasets.catalogue import load_dataset
from flfl.datasets.synthetic import synthesize
from flfl.errors import InputError
from flfl.io.sensors import Sensors
from flfl_bench import figures, owners, tables
from flfl_bench.cells import Cell, Source, fingerprint, load
from flfl_bench.figures import render
from flfl_bench.owners import below_alone, by_noise, cells, deal, paired, worth
from flfl_bench.runner import run_cell
from flfl_bench.sentences import gained, protected

MADE = Source("made", made='{"sensors": 12, "slots": 220, "rank": 2, "seed": 3}')


def spread(sensors, sites):
    """Mean distance between an owner's sensors."""
    pairs = [
        np.linalg.norm(sensors.coordinates[i] - sensors.coordinates[j])
        for i, one in enumerate(sites)
        for j, other in enumerate(sites)
        if i < j and one == other
    ]
    return np.mean(pairs)


@pytest.mark.parametrize("size", [1, 2, 4, 5, 16])
@pytest.mark.parametrize("how", ["compact", "interleaved"])
def test_every_owner_has_its_number_or_one_less(size, how):
    _, sensors = synthesize(21, 30, rng=np.random.default_rng(0))
    held = Counter(deal(sensors, f"{size} {how}")).values()
    assert sum(held) == 21
    assert len(held) == -(-21 // size)
    assert max(held) <= size
    assert max(held) - min(held) <= 1


def test_compact_owners_stand_together_and_interleaved_ones_do_not():
    _, sensors = load_dataset("germany_pm10")
    near, far = (spread(sensors, deal(sensors, f"4 {how}")) for how in ("compact", "interleaved"))
    assert near < 0.5 * far


def test_given_owners_are_those_of_the_file():
    _, sensors = load_dataset("germany_pm10")
    assert deal(sensors, "given") == sensors.sites
    assert deal(sensors, None) is None


@pytest.mark.parametrize("words", ["4", "0 compact", "4 scattered", "some"])
def test_words_that_mean_no_owners_are_refused(words):
    _, sensors = load_dataset("germany_pm10")
    with pytest.raises(InputError, match="are no owners"):
        deal(sensors, words)


def test_without_owners_or_places_there_is_nothing_to_deal():
    bare = Sensors(("a", "b"))
    with pytest.raises(InputError, match="name no owners"):
        deal(bare, "given")
    with pytest.raises(InputError, match="no coordinates"):
        deal(bare, "2 compact")


def cell(method, owned, **options):
    return Cell(
        source=MADE,
        fingerprint=fingerprint(*load(MADE)),
        pattern="outage",
        rate=0.8,
        seed=1,
        label=method,
        method=method,
        options=json.dumps({"effort": "quick"} | options),
        owners=owned,
    )


def test_each_owner_alone_comes_with_the_fit_of_the_network():
    ours, alone, pooled = (
        run_cell(cell(*one).as_dict())
        for one in (("flfl", "4 interleaved"), ("alone", "4 interleaved"), ("pooled", None))
    )
    assert ours["alone_mae"] == pytest.approx(alone["mae"], rel=1e-12)
    assert ours["sensor_alone_error"] == pytest.approx(alone["sensor_error"], rel=1e-12)
    assert sum(ours["sensor_error"]) / sum(ours["sensor_hidden"]) == pytest.approx(ours["mae"])
    # Owners do not change which readings are hidden, not even in outages of regions.
    assert ours["sensor_hidden"] == pooled["sensor_hidden"]


def test_other_owners_are_another_cell():
    assert cell("flfl", "4 compact").key != cell("flfl", "4 interleaved").key


def row(label, owned, errors, alone=None, **more):
    return {
        "data": "D", "pattern": "random", "rate": 0.5, "seed": 0, "label": label, "owners": owned,
        "sensor_hidden": [1] * len(errors), "sensor_error": errors, "sensor_alone_error": alone,
        "failed": None,
    } | more  # fmt: skip


def some_rows():
    rng = np.random.default_rng(0)
    found = []
    for data, unit in (("D", 1.0), ("E", 100.0)):
        for pattern, rate in (("random", 0.5), ("block", 0.5), ("outage", 0.9)):
            same = {"data": data, "pattern": pattern, "rate": rate}
            alone = unit * rng.uniform(3, 5, 30)
            found.append(row("pooled", None, list(0.5 * alone), **same))
            for owned, left in (("1", 0.6), ("2 compact", 0.7), ("4 interleaved", 1.1)):
                found.append(row("flfl", owned, list(left * alone), list(alone), **same))
    return pd.DataFrame(found)


def test_closed_is_a_ratio_of_sums_in_which_cases_weigh_alike():
    pairs = paired(some_rows())
    found = worth(pairs[pairs["owners"] == "1"])
    assert (found.gain, found.pooled_gain) == pytest.approx((0.4, 0.5))
    assert found.closed == pytest.approx(0.8)
    assert found.by_data == pytest.approx({"D": 0.8, "E": 0.8})
    assert found.by_pattern == pytest.approx({"random": 0.8, "block": 0.8, "outage": 0.8})
    # A case whose pooled gain is small counts with what it is, and not with its ratio.
    case = {"data": "D", "federated": [8.0], "alone": [10.0]}
    uneven = [{**case, "pattern": "random", "pooled": [5.0]}]
    uneven += [{**case, "pattern": "block", "pooled": [9.9], "federated": [9.0]}]
    assert worth(pd.DataFrame(uneven)).closed == pytest.approx(0.3 / 0.51)
    # Every sensor gains alike here, so no draw differs.
    assert found.intervals[2] == pytest.approx((0.8, 0.8))


def test_intervals_cover_the_truth_as_often_as_they_say():
    rng, hits = np.random.default_rng(1), 0
    for number in range(200):
        alone = rng.gamma(9, 1 / 9, 40)
        federated, pooled = (alone * rng.normal(mean, 0.1, 40) for mean in (0.8, 0.6))
        errors = {"alone": alone, "federated": federated, "pooled": pooled}
        pairs = pd.DataFrame([{"data": "D", "pattern": "random", **errors}])
        low, high = worth(pairs, draws=400, seed=number).intervals[2]
        hits += low <= 0.5 <= high
    assert 180 <= hits <= 199


def test_a_pooled_fit_that_gains_nothing_closes_nothing():
    rows = pd.DataFrame([row("pooled", None, [2.0]), row("flfl", "1", [1.0], [2.0])])
    assert np.isnan(worth(paired(rows)).closed)
    assert worth(paired(rows).iloc[:0]) is None


def test_cells_above_alone_are_told():
    worse = below_alone(paired(some_rows()))
    assert set(worse["owners"]) == {"4 interleaved"}
    assert worse["change"].tolist() == pytest.approx([0.1] * 6)


def test_masks_of_a_cell_are_added_up():
    rows = [
        row(label, owners, errors, *alone, seed=seed)
        for seed, more in ((0, 3.0), (1, 1.0))
        for label, owners, errors, *alone in (
            ("pooled", None, [1.0, 1.0]),
            ("flfl", "1", [more, 1.0], [2.0, 1.5]),
        )
    ]
    pairs = paired(pd.DataFrame(rows))
    assert len(below_alone(pairs[pairs["seed"] == 0])) == 1
    assert below_alone(pairs).empty
    assert cells(pairs)["masks"].tolist() == [2]
    assert cells(pairs)["change"].tolist() == pytest.approx([6.0 / 7.0 - 1])


def test_the_table_says_closed_by_size_and_what_got_worse():
    half, outages, worse = tables.ownership(some_rows())
    assert (
        half.rows[0]
        == ["single sensors", "flfl", "40.0 %", "50.0 %", "80 % (80 to 80)"] + ["80 %"] * 4
    )
    assert outages.title == "Closed, outages"
    assert worse.title == "Above the owners alone: 6 of 18 cells"
    assert worse.rows[0][-1] == "+10.0 %"


def noisy_rows():
    """The rows of before, and less noise that closes more, in one data set only."""
    rows = some_rows()
    ours = rows[(rows["label"] == "flfl") & (rows["data"] == "D")]
    less = [[0.9 * error for error in errors] for errors in ours["sensor_error"]]
    return pd.concat([rows, ours.assign(label="added_error 0", sensor_error=less)])


def test_noise_is_compared_on_the_same_cells():
    found = {(kind, noise): one.closed for kind, noise, one in by_noise(paired(noisy_rows()))}
    # Single sensors: 1 - 0.6 and 1 - 0.54 of 0.5; two to four: 0.7 and 1.1, the latter a loss.
    assert found["single sensors", 1.0] == pytest.approx(0.8)
    assert found["single sensors", 0.0] == pytest.approx(0.92)
    assert found["2 to 4 sensors", 1.0] == pytest.approx((0.3 - 0.1) / 2 / 0.5)


def test_sentences_say_what_is_gained_and_what_protection_costs():
    assert "an owner of one sensor has 40 % less error than alone, 80 % (80 to 80)" in gained(
        some_rows()
    )
    told = protected(noisy_rows())
    assert "92 % (92 to 92) and 38 % (38 to 38) with added error 0; 80 %" in told
    assert gained(some_rows().query("owners != '1'")) == ""


def test_the_cost_of_noise_is_drawn_where_there_are_two_kinds_of_noise():
    assert figures.protection(some_rows()) == []
    (picture,) = figures.protection(noisy_rows())
    assert b"</svg>" in render(picture, "svg")


def test_the_figure_is_the_same_file_every_time_and_needs_made_up_owners():
    (picture,) = figures.ownership(some_rows())
    assert render(picture, "svg") == render(picture, "svg")
    rows = some_rows()
    rows["owners"] = rows["owners"].where(rows["owners"].isna(), owners.GIVEN)
    assert figures.ownership(rows) == []
