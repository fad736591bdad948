"""The audit's verdict: honest runs pass, broken ones do not."""

import re
from pathlib import Path

import numpy as np
import pytest

from audit.network import CleanSums, NoNoise, SharedNoise, case, readings, run
from flfl.audit import Case, audit, save_view
from flfl.audit.attacks import everything_else
from flfl.audit.report import Report, read
from flfl.audit.run import ATTACKS, NIGHTLY, attacked, check
from flfl.errors import InputError
from flfl.protocol.owner import Owner

DOCS = Path(__file__).parents[2] / "docs"
OWNER = "flfl.estimators.flfl.Owner"


@pytest.fixture(scope="module")
def report():
    X, sensors = readings()
    return audit(X, sensors, nights=3)


def silently(_):
    """Say nothing."""


def judged(one: Case) -> Report:
    return Report(attacked(one, NIGHTLY, silently), "sums", 10, 10, checks=check(one))


def test_an_honest_run_passes(report):
    assert not report.failed
    assert report.bound == 0.5
    assert [one.name for one in report.findings[: len(ATTACKS)]] == list(ATTACKS)
    assert [one.name for one in report.findings[len(ATTACKS) :]] == [
        f"{name} (3 nights)" for name in NIGHTLY
    ]
    for one in report.findings:
        assert 0 <= one.residual_read_median <= one.residual_read_max <= 1
        assert one.residual_read_max <= one.copies_max + 0.02
        assert one.readings_exposed < 0.2


def test_the_coordinator_reads_less_than_everybody_else(report):
    found = {one.name: one for one in report.findings}
    everybody = found["everything else"].residual_read_median
    alone = [one for one in report.findings if one.adversary == "the coordinator"]
    assert len(alone) == 8
    assert max(one.residual_read_median for one in alone) < 0.7 * everybody


def test_slow_and_volatile_parts_show_more(report):
    everybody = next(one for one in report.findings if one.name == "everything else")
    assert everybody.slow_median > everybody.residual_read_median
    assert everybody.volatile_median > everybody.residual_read_median


def test_without_noise_it_passes_too_and_shows_everything():
    X, sensors = readings()
    names = ["everything else", "all but one reading"]
    report = audit(X, sensors, added_error=0, attacks=names)
    assert not report.failed
    assert report.bound == 1.0
    for one in report.findings:
        assert one.residual_read_median > 0.98
        assert one.readings_exposed > 0.9


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (CleanSums, ["sums follow from the copies: no", "loadings follow from the copies: no (s3"]),
        (NoNoise, ["copies hold the declared noise: no (s3: 0."]),
        (SharedNoise, ["noise is not used twice: no (s3 and s4"]),
    ],
)
def test_a_broken_run_fails(monkeypatch, owner, words):
    monkeypatch.setattr(OWNER, owner)
    found = judged(run(pilot=False))
    assert found.failed
    assert all(word in found.verdict for word in words), found.verdict


def test_clean_sums_are_read_by_an_attack_and_not_by_the_copies(monkeypatch):
    monkeypatch.setattr(OWNER, CleanSums)
    beaten = {one.name: one for one in judged(run(pilot=False)).beaten}
    assert {"everything else", "all but one reading"} <= set(beaten)
    assert beaten["everything else"].excess_sensor == "s3"
    monkeypatch.setattr(OWNER, Owner)
    assert not judged(run(pilot=False)).beaten


def averaged(cases):
    """Everybody else averages what it gets of the copies over several runs."""
    copies = np.mean([everything_else.own_copies(one, copies=False)[0] for one in cases], axis=0)
    first = cases[0]
    return read(first.wanted.residual, copies - first.wanted.predicted, first.network.known)


def test_reruns_tell_nothing_new_since_the_copies_are_the_same():
    once = averaged([case()])
    again = averaged([run(share=share) for share in (0.5, 0.4, 0.3, 0.2)])
    np.testing.assert_allclose(again, once, atol=1e-3)


def test_fresh_noise_in_every_run_would_be_averaged_out():
    once = averaged([case()])
    fresh = averaged([run(random_state=seed) for seed in range(4)])
    assert (fresh > once + 0.1).all()


def test_settings_and_attacks_are_checked():
    X, sensors = readings()
    with pytest.raises(InputError, match="max_exposure"):
        audit(X, sensors, max_exposure=0.5)
    with pytest.raises(InputError, match="'magic' is not known"):
        audit(X, sensors, attacks=["magic"])
    with pytest.raises(InputError, match="'everything' is not known"):
        audit(X, sensors, disclosure="everything")


def test_one_owner_has_nothing_to_fear():
    X, sensors = readings()
    report = audit(X, sensors, sites=["one"] * len(sensors.ids))
    assert report.findings == []
    assert not report.failed
    assert "Nothing was shared" in report.verdict


def test_plain_uploads_give_every_reading():
    X, sensors = readings()
    report = audit(X, sensors, disclosure="plain", rank=3, rounds=8)
    assert report.findings[0].readings_exposed == 1.0
    assert report.findings[0].guessing_exposes < 0.1
    assert "EXPOSED" in report.verdict


def test_an_added_error_in_units_has_a_bound_too():
    X, sensors = readings()
    bounds = [
        audit(X, sensors, added_error=text, attacks=["slot by slot"]).bound
        for text in ("0.5 m", "2 m")
    ]
    assert 0 < bounds[1] < bounds[0] < 1


def test_the_example_in_the_docs_runs(tmp_path, monkeypatch, capsys):
    save_view(tmp_path / "view.npz", case())
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "audit.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    exec(compile(code, "audit.md", "exec"), {})
    assert "residual read: worst sensor 0." in capsys.readouterr().out


def test_the_docs_name_every_attack():
    text = (DOCS / "audit.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in ATTACKS)
