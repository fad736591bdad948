"""Settings, times, agreements and keys of a deployment: each mistake is named with its remedy."""

import json
import stat
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from flfl.cli import main
from flfl.codec import pack, unpack
from flfl.config import CoordinatorSettings, SiteSettings, Terms, read_settings
from flfl.errors import InputError
from flfl.io.grid import infer_grid, natural_period
from flfl.protocol.added_error import AddedError
from flfl.protocol.copier import Readings
from flfl.protocol.plan import Pin, Plan
from flfl.service import keys
from flfl.service.agreement import (
    Agreement,
    AgreementError,
    Published,
    check_terms,
    from_bytes,
    to_bytes,
)
from flfl.service.coordinator import Setup
from flfl.service.files import lock
from flfl.service.grid import TimeGrid
from flfl.service.home import copies_folder, floor_of, open_copier
from flfl.service.identity import load_roster

SITE = """
network = "n"
name = "north"
[broker]
host = "localhost"
plaintext = true
[readings]
file = "north.csv"
[out]
file = "filled.csv"
"""


COORDINATOR = """
network = "n"
[grid]
start = "2024-01-01"
step = "1h"
[sites]
roster = "roster.json"
"""


class TestSettings:
    def read(self, tmp_path, text, kind=SiteSettings):
        path = tmp_path / "site.toml"
        path.write_text(text)
        return read_settings(kind, path)

    def test_paths_are_taken_from_the_file(self, tmp_path):
        settings = self.read(tmp_path, SITE)
        assert settings.readings.file == tmp_path / "north.csv"
        assert settings.state == tmp_path / "state"

    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            ("network", "netwrok", "netwrok.*no such setting.*'network'"),
            ("host", "hots", r"broker\.hots.*no such setting.*'host'"),
            ('host = "localhost"', "host = 5", r"broker\.host: 5"),
            ("plaintext = true", "plaintext = 1", r"broker\.plaintext: 1"),
            ("plaintext = true", "", "TLS needs authority, certificate and key.*plaintext"),
            ("plaintext = true", "plaintext = true\npiece = 0", r"broker\.piece: 0"),
            ("plaintext = true", "plaintext = true\nport = 70000", r"broker\.port: 70000"),
            ('[out]\nfile = "filled.csv"', "", "out.*missing"),
            ('file = "filled.csv"', "", r"out\.file.*missing"),
            ('file = "north.csv"', "", "one of file, folder and query"),
            ("[readings]", "readings = 3\n[x]", "readings"),
            ('name = "north"', "name = ", "not TOML"),
            ('name = "north"', 'name = "coordinator"', "no site may be called"),
            ('name = "north"', 'name = "north"\nagain = 0', "again: 0"),
            ("[readings]", "[terms]\nadded_error = true\n[readings]", r"terms\.added_error: True"),
        ],
    )
    def test_a_mistake_is_named(self, tmp_path, old, new, words):
        with pytest.raises(InputError, match=words):
            self.read(tmp_path, SITE.replace(old, new))

    @pytest.mark.parametrize(
        ("section", "line", "words"),
        [
            ("[deadlines]", "answer_within = 0.0", r"deadlines\.answer_within: 0"),
            ("[deadlines]", "misses = 0", r"deadlines\.misses: 0"),
            ("[deadlines]", "finish_within = nan", r"deadlines\.finish_within: nan"),
            ("[sites]", "quorum = -1", r"sites\.quorum: -1"),
            ("[run]", "share = 0.0", r"run\.share: 0"),
            ("[run]", "rounds = 0", r"run\.rounds: 0"),
            ("[run]", 'transformation = "tan"', r"run\.transformation: 'tan'"),
        ],
    )
    def test_a_mistake_of_the_coordinator_is_named(self, tmp_path, section, line, words):
        text = f"{COORDINATOR}[deadlines]\n[run]\n".replace(section, f"{section}\n{line}")
        with pytest.raises(InputError, match=words):
            self.read(tmp_path, text, CoordinatorSettings)

    def test_a_quorum_is_not_larger_than_the_roster(self, tmp_path, own_log):
        network(tmp_path)
        path = tmp_path / "coordinator.toml"
        path.write_text(COORDINATOR.replace("[sites]", "[sites]\nquorum = 4"))
        with pytest.raises(InputError, match="quorum is 4, and the roster lists 3"):
            Setup.open(path)

    @pytest.mark.parametrize(("line", "floor"), [("2", 2.0), ('"2 ug/m3"', "2 ug/m3")])
    def test_an_added_error_is_a_multiple_or_has_a_unit(self, tmp_path, line, floor):
        settings = self.read(tmp_path, f"{SITE}[terms]\nadded_error = {line}\n")
        assert settings.terms.added_error == floor
        assert AddedError(2.0) == floor_of(settings) or floor_of(settings).units == 2.0

    def test_the_guides_examples_are_read(self, tmp_path):
        page = (Path(__file__).resolve().parents[2] / "docs" / "deployment.md").read_text()
        blocks = [b.split("```")[0] for b in page.split("```toml\n")[1:]]
        assert len(blocks) >= 2
        for block in blocks:
            kind = SiteSettings if "readings" in tomllib.loads(block) else CoordinatorSettings
            self.read(tmp_path, block, kind)


def network(folder):
    """Keys of a network of three sites."""
    keys.make_authority(folder, "n")
    for name in ("a", "b", "c"):
        keys.make_site(folder, name)
    keys.write_roster(folder, [])


class TestGrid:
    @pytest.mark.parametrize(
        ("start", "step", "freq", "period"),
        [
            ("2024-01-01T05:00", "1h", "h", 24),
            ("2024-01-01", "1d", "D", 7),
            ("2024-01-01", "1 week", "W-MON", 0),
            ("2024-01-01", "30min", "30min", 48),
            ("2024-02-01", "1 month", "MS", 12),
            ("2024-01-01", "1 quarter", "QS", 4),
            ("2023-01-01", "1 year", "YS", 1),
        ],
    )
    def test_the_same_times_and_season_as_the_tables(self, start, step, freq, period):
        index = pd.date_range(start, periods=30, freq=freq)
        grid = TimeGrid(start, step, 30)
        np.testing.assert_array_equal(grid.stamps(), index.as_unit("s").asi8)
        assert grid.period() == natural_period(infer_grid(index)) == period

    @pytest.mark.parametrize("step", ["", "h1", "1 fortnight", "0h", "-1h", "1.5h"])
    def test_a_step_that_is_none(self, step):
        with pytest.raises(InputError, match="is no step"):
            TimeGrid("2024-01-01", step, 10)

    def test_times_between_slots_are_refused_and_others_left_out(self):
        grid = TimeGrid("2024-01-01", "1h", 4)
        first = int(grid.stamps()[0])
        assert grid.slots_of(np.array([first - 60, first + 3600, first + 10**6]), "x").tolist() == [
            -1,
            1,
            -1,
        ]
        with pytest.raises(InputError, match=r"1 readings' times lie between.*00:30:00"):
            grid.slots_of(np.array([first, first + 1800]), "x")


def agreement(**changes):
    plan = Plan(box=((0.0, 1.0), (2.0, 3.0)))
    return replace(
        Agreement(
            "n", 3, "call", TimeGrid("2024-01-01", "1h", 10), plan, True, "ab", ("a", "b"),
            "latlon", (0.1, 0.2),
        ),
        **changes,
    )  # fmt: skip


class TestAgreement:
    def test_it_comes_back_as_it_was_and_its_name_covers_all_of_it(self):
        one = agreement()
        assert from_bytes(Agreement, to_bytes(one)) == one
        others = [
            agreement(number=1), agreement(sites=("a",)), agreement(secure=False),
            agreement(plan=replace(one.plan, share=0.4)), agreement(centre=(0.1, 0.3)),
        ]  # fmt: skip
        assert len({one.run, *(other.run for other in others)}) == 6

    @pytest.mark.parametrize(
        "data", [b"", b"\xff", *map(pack, ([], {}, None, {"grid": 3}, [1, 2]))]
    )
    def test_what_is_none_is_refused(self, data):
        with pytest.raises(AgreementError):
            from_bytes(Agreement, data)
        with pytest.raises(AgreementError):
            Published.from_bytes(data)

    @pytest.mark.parametrize(
        ("section", "name", "value"),
        [
            ("plan", "share", "0.1"), ("plan", "share", None), ("plan", "share", 2.0),
            ("plan", "rank", 12.0),
            ("plan", "transform", "tan"), ("plan", "rounds", True), ("plan", "box", [[0.0, 1.0]]),
            ("plan", "box", [["a", 1.0], [2.0, 3.0]]), ("plan", "extra", 1),
            ("plan", "box", [[float("inf"), 1.0], [2.0, 3.0]]),
            ("plan", "added_error", float("nan")), ("grid", "start", 5), ("grid", "slots", "10"),
            ("grid", "slots", 10**12), (None, "number", 1.5), (None, "secure", 1),
            (None, "centre", [0.0, float("inf")]), (None, "geography", "x"), (None, "sites", "ab"),
        ],
    )  # fmt: skip
    def test_each_setting_is_what_it_must_be(self, section, name, value):
        document = unpack(to_bytes(agreement()))
        (document[section] if section else document)[name] = value
        with pytest.raises(AgreementError):
            from_bytes(Agreement, pack(document))

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"plan": Plan(rounds=10**9)}, "more rounds"),
            ({"plan": Plan(rank=10**9)}, "factors than"),
            ({"plan": Plan(share=0.9)}, "a share of 0.9"),
            ({"secure": False}, "no secure sums"),
            ({"roster": "cd"}, "list of sites"),
        ],
    )
    def test_what_an_owner_does_not_agree_to_is_refused(self, changes, words):
        check_terms(agreement(), Terms(), "ab")
        with pytest.raises(AgreementError, match=words):
            check_terms(agreement(**changes), Terms(), "ab")


class TestCopies:
    """A site's secret and its copies are made once."""

    def test_they_are_private_and_found_again(self, tmp_path):
        first = open_copier(tmp_path / "state")
        secret = (tmp_path / "state" / "secret").read_bytes()
        again = open_copier(tmp_path / "state")
        assert again.store.id == first.store.id
        assert (tmp_path / "state" / "secret").read_bytes() == secret
        for path in (tmp_path / "state").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0

    def test_an_owner_s_sites_in_two_networks_share_them(self, tmp_path):
        locks = [lock(tmp_path / name) for name in ("north", "south")]
        one, other = (open_copier(tmp_path / "copies") for _ in locks)
        known = np.ones((1, 300), bool)
        raw = np.random.default_rng(0).standard_normal((1, 300))
        given = Readings(("a",), 3600 * np.arange(300), raw, known, Pin("none", 3600))
        first = one.copy(given, np.ones(1), np.ones(1), slice(0, 200))
        second = other.copy(given, np.full(1, 2.0), np.ones(1))
        np.testing.assert_array_equal(second.values[:, :200], first.values[:, :200])
        np.testing.assert_array_equal(one.copy(given, np.ones(1), np.ones(1)).values, second.values)
        for held, copier in zip(locks, (one, other), strict=True):
            held.close()
            copier.store.close()
        open_copier(tmp_path / "copies").store.close()

    def test_a_site_with_copies_does_not_begin_others_elsewhere(self, tmp_path):
        given = 'network = "n"\nname = "a"\nreadings.file = "r.csv"\nout.file = "o.csv"\n'
        (tmp_path / "site.toml").write_text(given + 'copies = "shared"\n')
        config = read_settings(SiteSettings, tmp_path / "site.toml")
        assert copies_folder(config) == tmp_path / "shared"
        assert copies_folder(config.model_copy(update={"copies": None})) == tmp_path / "state"
        open_copier(config.state).store.close()
        with pytest.raises(InputError, match=r"Move secret, copies.sqlite and copies.id"):
            copies_folder(config)

    @pytest.mark.parametrize("lost", ["secret", "copies.sqlite"])
    def test_a_lost_one_is_not_made_anew(self, tmp_path, lost):
        open_copier(tmp_path).store.close()
        (tmp_path / lost).unlink()
        with pytest.raises(InputError, match=r"missing.*backup"):
            open_copier(tmp_path)
        assert not (tmp_path / lost).exists()


class TestKeys:
    def flfl(self, *arguments):
        return CliRunner().invoke(main, ["keys", *arguments])

    def test_a_networks_keys(self, tmp_path):
        folder = ["--folder", str(tmp_path)]
        assert self.flfl("init", "--network", "n", *folder).exit_code == 0
        for name in ("a", "b", "c"):
            assert self.flfl("site", name, *folder).exit_code == 0
        result = self.flfl("roster", "--json", *folder)
        assert json.loads(result.stdout)["sites"] == ["a", "b", "c"]
        roster = load_roster(tmp_path / "roster.json")
        assert roster.keys["b"] == keys.load_identity(tmp_path / "b.identity").public
        for name in ("authority.key", "a.key", "a.identity", "coordinator.key", "broker.key"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert "1 certificate" in self.flfl("revoke", "a", *folder).stdout
        result = self.flfl("init", "--network", "n", *folder)
        assert result.exit_code == 2
        assert "already" in result.stderr

    def test_mistakes(self, tmp_path):
        folder = ["--folder", str(tmp_path)]
        assert self.flfl("site", "a", *folder).exit_code == 2
        self.flfl("init", "--network", "n", *folder)
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        names = ("coordinator", "authority", "Broker", "revoked", "a/b", "", "x" * 65, "+")
        for name in names:
            assert self.flfl("site", name, *folder).exit_code == 2, name
        assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}
        assert self.flfl("site", "a", "--days", "99999", *folder).exit_code == 2
        self.flfl("site", "a", *folder)
        assert self.flfl("roster", *folder).exit_code == 2
        assert self.flfl("revoke", "nobody", *folder).exit_code == 2
        assert keys.check_certificate(tmp_path / "a.pem", "a") == ""
        self.flfl("site", "a", "--days", "10", *folder)
        assert "ends on" in keys.check_certificate(tmp_path / "a.pem", "a")

    def test_files_that_are_something_else(self, tmp_path):
        folder = ["--folder", str(tmp_path)]
        self.flfl("init", "--network", "n", *folder)
        for name in ("a", "b", "c"):
            self.flfl("site", name, *folder)
        (tmp_path / "c.public").write_text("no key")
        (tmp_path / "c.pem").write_text("no certificate")
        assert "c.public: this is not a public key" in self.flfl("roster", *folder).stderr
        assert "c.pem: this is not a certificate" in self.flfl("revoke", "c", *folder).stderr

    def test_a_renewed_site_is_revoked_with_all_its_certificates(self, tmp_path):
        keys.make_authority(tmp_path, "n")
        for name in ("a", "a", "b"):
            keys.make_site(tmp_path, name)
        assert keys.revoke(tmp_path, "a") == 2
        keys.make_site(tmp_path, "a")
        assert keys.revoke(tmp_path, "a") == 3

    def test_a_revoked_site_does_not_come_back_with_the_next_roster(self, tmp_path):
        keys.make_authority(tmp_path, "n")
        for name in ("a", "b", "c", "d"):
            keys.make_site(tmp_path, name)
        assert keys.revoke(tmp_path, "b") == 1
        assert keys.write_roster(tmp_path, []).names == ("a", "c", "d")
        keys.make_site(tmp_path, "b")  # let in again, with a new certificate
        assert keys.write_roster(tmp_path, []).names == ("a", "b", "c", "d")

    def test_a_secret_that_others_can_read_is_refused(self, tmp_path):
        keys.make_authority(tmp_path, "n")
        keys.make_site(tmp_path, "a")
        path = tmp_path / "a.identity"
        path.chmod(0o640)
        keys.load_identity(path)
        path.chmod(0o644)
        with pytest.raises(InputError, match=r"chmod 600 a\.identity"):
            keys.load_identity(path)

    def test_a_clock_that_is_a_day_behind_still_accepts_a_new_certificate(self, tmp_path):
        from cryptography import x509

        keys.make_authority(tmp_path, "n")
        keys.make_site(tmp_path, "a")
        for name in ("authority", "a"):
            certificate = x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes())
            made = pd.Timestamp((tmp_path / f"{name}.pem").stat().st_mtime, unit="s", tz="UTC")
            assert made - certificate.not_valid_before_utc > pd.Timedelta(days=1)
