"""The account: exposure adds up over runs, the same numbers are not counted twice."""

import json
import stat

import numpy as np
import pandas as pd
import pytest

from flfl import FLFL
from flfl.data.synth import synthesize
from flfl.errors import InputError
from flfl.federation.factors import RefusedError
from flfl.privacy.account import (
    Account,
    Release,
    account_path,
    load_account,
    own_secret,
    save_account,
)


@pytest.fixture(scope="module")
def network():
    table, sensors = synthesize(
        16, 300, rank=3, noise=0.5, missing=0.2, rng=np.random.default_rng(0)
    )
    frame = table.values.copy()
    frame.index = pd.date_range("2024-01-01", periods=len(frame), freq="h")
    return frame, sensors


def fit(frame, sensors, folder, **options):
    return FLFL(effort="quick", account=folder, **options).fit(frame, sensors=sensors)


def test_a_file_that_only_its_owner_can_read_and_that_survives(tmp_path):
    path = account_path(tmp_path / "kept", "north")
    secret = own_secret(path.with_suffix(".secret"))
    account = Account().with_release(Release("run", (1, 2), (0.25, 0.3), "abc", 0.4, 2.5))
    save_account(path, account)
    assert load_account(path) == account
    assert own_secret(path.with_suffix(".secret")) == secret
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 9, "releases": []}', "\x00"])
def test_what_was_released_is_never_forgotten_silently(tmp_path, text):
    path = tmp_path / "account.json"
    path.write_text(text)
    with pytest.raises(InputError):
        load_account(path)


def test_the_same_run_again_is_free_and_another_one_is_refused(network, tmp_path):
    frame, sensors = network
    first = fit(frame, sensors, tmp_path)
    again = fit(frame, sensors, tmp_path)
    np.testing.assert_array_equal(first.estimates_, again.estimates_)
    with pytest.raises(RefusedError, match="earlier runs have released"):
        fit(frame, sensors, tmp_path, rank=2)
    accounts = [json.loads(p.read_text()) for p in tmp_path.glob("*.json")]
    assert len(accounts) > 1
    assert all(len(a["releases"]) == 1 for a in accounts)
    assert all(max(a["releases"][0]["rates"]) <= 0.3 + 1e-9 for a in accounts)


def test_other_slots_are_not_concerned(network, tmp_path):
    frame, sensors = network
    fit(frame.iloc[:150], sensors, tmp_path)
    fit(frame.iloc[150:], sensors, tmp_path)
    with pytest.raises(RefusedError, match="earlier runs have released"):
        fit(frame.iloc[100:250], sensors, tmp_path)


def test_another_cohort_over_the_same_slots_is_refused(network, tmp_path):
    """The difference of the two sums would be the missing site alone."""
    frame, sensors = network
    model = fit(frame, sensors, tmp_path)
    kept = np.array(model.partition_.sites) != model.partition_.site_names[0]
    fewer = sensors.subset(kept).with_sites(list(np.array(model.partition_.sites)[kept]))
    with pytest.raises(RefusedError, match="earlier runs have released"):
        fit(frame.loc[:, kept], fewer, tmp_path)


def test_the_account_is_written_before_anything_leaves(network, tmp_path):
    frame, sensors = network
    heard = []

    class Watched(FLFL):
        def witness(self, ask, replies):
            if ask.kind == "open":
                heard.append(sum(bool(p.stat().st_size) for p in tmp_path.glob("*.json")))

    model = Watched(effort="quick", account=tmp_path).fit(frame, sensors=sensors)
    assert heard == [len(model.partition_.site_names)]
