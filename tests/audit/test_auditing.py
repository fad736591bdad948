"""An audit as a whole: what it runs, what it concludes, what it writes."""

import os
import re
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from audit.network import readings
from flfl.audit import Finding, Report, audit, save_view
from flfl.audit.attack import Against, compare
from flfl.audit.registry import ATTACKS
from flfl.errors import InputError

DOCS = Path(__file__).parents[2] / "docs"


def frame(M=24, rate=0.8, sites=4, N=300, seed=0):
    X, sensors = readings(M, rate, sites=sites, N=N, seed=seed)
    return pd.DataFrame(X, columns=list(sensors.ids)), sensors


@pytest.fixture(scope="module")
def whole():
    X, sensors = frame()
    said = []
    report = audit(X, sensors, quick=True, progress=said.append)
    return report, said


def report(read=0.2, judged=True, exposed=0.03, **changed):
    found = Finding(
        "attack",
        "the coordinator",
        "",
        news_read_max=read,
        news_read_median=0.1,
        readings_exposed=exposed,
        guessing_exposes=Against(0.01, 0.03),
        worst_sensor="a",
        judged=judged,
    )
    fields = {"disclosure": "sums", "max_exposure": 0.5, "secure": True, "n_sites": 3}
    return Report(**{"findings": [found], "n_sensors": 9, **fields, **changed})


def test_every_attack_of_the_registry_is_run(whole):
    found, said = whole
    names = {one.name.partition(" (")[0] for one in found.findings}
    # Membership takes two more runs: not in a quick audit. Without a budget there is no bound.
    assert names == {attack.name for attack in ATTACKS} - {"membership", "noisy-release"}
    assert said[0] == "running the network"
    assert {f"attack: {attack.name}" for attack in ATTACKS} == set(said[1:])
    for one in found.findings:
        assert one.sentence
        assert one.adversary
        assert one.knows
        assert "{" not in one.sentence


def test_figures_are_what_they_say(whole):
    found, _ = whole
    for one in found.findings:
        if one.news_read_max is not None:
            assert one.news_read_median <= one.news_read_max <= 1
        if one.readings_exposed is not None:
            assert 0 <= one.readings_exposed <= 1
        if one.relative_error is not None:
            # News that is read can only make a guess better than the picture.
            assert one.relative_error.factors < 1.05


def test_the_coordinator_alone_stays_below_the_cap(whole):
    found, _ = whole
    alone = [one for one in found.findings if one.adversary == "the coordinator"]
    assert len(alone) > 8
    assert max(one.news_read_max or 0 for one in alone) < 0.55


def test_a_trusted_coordinator_reads_nearly_everything():
    X, sensors = frame(M=12, rate=0.7)
    found = audit(X, sensors, quick=True, attacks=["masks-known"], max_exposure=1.0, rank=11)
    assert found.findings[0].news_read_max > 0.9
    assert found.exposed
    assert not found.private
    assert not found.failed


def test_plain_uploads_give_every_reading_away():
    X, sensors = frame(M=8, rate=0.6, N=150)
    found = audit(X, sensors, disclosure="plain", rank=4, rounds=8)
    by_name = {one.name: one for one in found.findings}
    assert by_name["plain-inversion (as sent)"].readings_exposed > 0.99
    assert by_name["plain-inversion (32-bit messages)"].relative_error.mean < 1e-3
    assert by_name["plain-inversion (as sent)"].guessing_exposes.mean < 0.1
    noisy = by_name["plain-inversion (noise of 10%)"]
    assert noisy.relative_error.mean > 0.01
    assert found.exposed
    assert not found.private


def test_equal_seeds_give_equal_reports():
    X, sensors = frame()
    first, second = (
        audit(X, sensors, quick=True, attacks=["readouts", "coalition"], seed=3).as_dict()
        for _ in range(2)
    )
    for one in (first, second):
        one.pop("seconds")
        for attack in one["attacks"]:
            attack.pop("seconds")
    assert first == second


def test_a_network_too_small_to_share_has_nothing_to_read():
    X, sensors = frame(M=1, sites=1)
    found = audit(X, sensors, quick=True)
    assert found.findings == []
    assert found.view is None
    assert "Nothing was shared" in found.verdict
    assert not found.exposed


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"disclosure": "plain"}, "plain"),
        ({"max_exposure": 1.0}, "guard is off"),
        ({"n_sites": 2}, "too few"),
        ({"secure": False}, "each site's own sums"),
    ],
)
def test_only_a_guarded_secure_network_calls_itself_private(changed, words):
    assert report().private
    assert not report(**changed).private
    assert words in report(**changed).verdict
    assert not report(read=0.99, **changed).failed


def test_private_and_exposed_fails():
    assert not report(read=0.55).exposed
    assert report(read=0.56).failed
    assert "EXPOSED" in report(read=0.56).verdict
    assert not report(read=0.99, judged=False).exposed
    assert report(read=0.36, max_exposure=0.3).failed
    # More readings than guessing exposes, by more than the margin.
    assert report(exposed=0.09).failed
    assert not report(exposed=0.07).failed


def test_a_perfect_guess_exposes_everything_and_the_mean_little():
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((4, 500))
    raw[0, :100] = np.nan
    known = np.isfinite(raw)
    mean = np.nanmean(raw, axis=1, keepdims=True) + np.zeros(raw.shape)
    found = compare(raw, {"attack": raw, "mean": mean, "factors": 0.5 * raw}, known)
    assert found["readings_exposed"] == 1.0
    assert found["guessing_exposes"].mean < 0.05
    half = compare(raw, {"attack": 0.5 * raw, "mean": mean, "factors": 0.5 * raw}, known)
    assert half["relative_error"].mean == pytest.approx(0.5, abs=0.01)
    assert half["relative_error"].factors == pytest.approx(1.0)


def test_settings_the_method_does_not_have_are_refused():
    X, sensors = frame()
    with pytest.raises(InputError, match="has no setting 'colour'"):
        audit(X, sensors, colour=1)
    with pytest.raises(InputError, match="unknown attack"):
        audit(X, sensors, attacks=["magic"])
    with pytest.raises(InputError, match="unknown disclosure"):
        audit(X, sensors, disclosure="whispers")


def test_the_view_holds_what_was_seen_and_the_truth_lies_apart(whole, tmp_path):
    view = whole[0].view
    path, truth_path = save_view(tmp_path / "view.npz", view)
    assert sorted(os.listdir(tmp_path)) == ["view.npz", "view.truth.npz"]
    assert truth_path.name == "view.truth.npz"
    for one in (path, truth_path):
        assert stat.S_IMODE(one.stat().st_mode) == 0o600
    seen, truth = (dict(np.load(one, allow_pickle=False)) for one in (path, truth_path))
    rounds, (M, N), k = len(view.rounds), view.J.shape, view.m.shape[1]
    assert seen["g"].shape == (rounds, N, k)
    assert seen["g_windows"].shape == (rounds, len(view.windows), k)
    assert seen["F"].shape == seen["R"].shape == (rounds, k, k)
    assert seen["Q"].shape == (N, k)
    assert seen["b"].shape == (M, k)
    assert truth["observed"].shape == truth["residual"].shape == truth["readings"].shape == (M, N)
    assert np.array_equal(seen["sensors"], truth["sensors"])
    assert set(np.unique(truth["observed"])) == {0, 1}


def test_no_reading_and_no_latent_vector_stands_in_the_view(whole, tmp_path):
    view = whole[0].view
    path, _ = save_view(tmp_path / "view.npz", view)
    seen = dict(np.load(path, allow_pickle=False))
    numbers = np.concatenate([a.ravel() for a in seen.values() if a.dtype.kind == "f"])
    secrets = np.concatenate([view.Y[view.J > 0], view.news[view.J > 0], view.P.ravel()])
    assert not np.isin(secrets[secrets != 0], numbers).any()


def test_the_page_on_attacks_of_ones_own_works(whole, tmp_path, monkeypatch, capsys):
    save_view(tmp_path / "view.npz", whole[0].view)
    text = (DOCS / "attack-us.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert len(code.strip().splitlines()) <= 20
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "attack-us.md", "exec"), {})
    worst, median = re.findall(r"-?\d+\.\d+", capsys.readouterr().out)
    assert float(median) <= float(worst) < 0.55


def test_the_page_on_the_audit_names_every_attack():
    text = (DOCS / "audit.md").read_text(encoding="utf-8")
    for attack in ATTACKS:
        assert f"`{attack.name}`" in text
