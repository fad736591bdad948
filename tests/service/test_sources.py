"""An owner's readings from a file, a folder, SQLite and a real PostgreSQL: the same snapshot."""

import getpass
import glob
import os
import pwd
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from broker import free_port
from flfl.config import ReadingSettings, read_settings
from flfl.errors import InputError
from flfl.service.files import load, save
from flfl.service.grid import TimeGrid
from flfl.service.home import Snapshot
from flfl.service.tables import read_source as snapshot

GRID = TimeGrid("2024-01-01", "1h", 48)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    index = pd.date_range("2024-01-01", periods=48, freq="h", name="time")
    values = rng.normal(10, 2, (48, 3)).round(2)
    values[rng.random(values.shape) < 0.2] = np.nan
    return pd.DataFrame(values, index, ["a", "b", "c"])


def test_codes_are_told_in_the_log_without_a_reading(frame, tmp_path, caplog):
    frame = frame.copy()
    frame.iloc[[4, 20, 33], 0] = -99.9
    frame.to_csv(tmp_path / "all.csv")
    with caplog.at_level("WARNING", "flfl"):
        taken = snapshot(ReadingSettings(file=tmp_path / "all.csv"), GRID)
    assert (taken.values == -99.9).sum() == 3
    (told,) = caplog.messages
    assert told.startswith("3 readings are numbers that archives write for missing ones")
    assert "99.9" not in told
    caplog.clear()
    snapshot(ReadingSettings(file=tmp_path / "all.csv", missing=[-99.9]), GRID)
    assert caplog.messages == []


def long_form(frame):
    rows = frame.reset_index().melt("time", var_name="sensor", value_name="value").dropna()
    return rows.sample(frac=1.0, random_state=0)


def test_a_file_and_a_folder_and_what_is_kept(frame, tmp_path):
    frame.to_csv(tmp_path / "all.csv")
    whole = snapshot(ReadingSettings(file=tmp_path / "all.csv"), GRID)
    np.testing.assert_array_equal(whole.values, frame.to_numpy().T)
    folder = tmp_path / "drop"
    folder.mkdir()
    frame.iloc[:30].to_csv(folder / "1.csv")
    frame.iloc[25:].to_csv(folder / "2.csv")
    (folder / "notes.md").write_text("not readings")
    parts = snapshot(ReadingSettings(folder=folder), GRID)
    np.testing.assert_array_equal(parts.values, whole.values)
    save(tmp_path / "kept", vars(parts))
    again = Snapshot(**load(tmp_path / "kept"))
    assert again.ids == ["a", "b", "c"]
    np.testing.assert_array_equal(again.values, whole.values)
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o600
    data = (tmp_path / "kept").read_bytes()
    (tmp_path / "kept").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="damaged"):
        load(tmp_path / "kept")


def test_two_files_that_differ(frame, tmp_path):
    frame.to_csv(tmp_path / "1.csv")
    (frame + 1).to_csv(tmp_path / "2.csv")
    with pytest.raises(InputError, match="differ from an earlier file"):
        snapshot(ReadingSettings(folder=tmp_path), GRID)
    first = snapshot(ReadingSettings(folder=tmp_path, duplicates="first"), GRID)
    np.testing.assert_array_equal(first.values, frame.to_numpy().T)
    mean = snapshot(ReadingSettings(folder=tmp_path, duplicates="mean"), GRID)
    np.testing.assert_allclose(mean.values, frame.to_numpy().T + 0.5)


def test_a_site_reads_by_every_rule_of_a_file(tmp_path):
    """Decimal commas, Latin-1, jitter, a code, a limit of detection: as keys of [readings]."""
    times = pd.date_range("2024-01-01", periods=48, freq="h")
    lines = ["Meßzeit;a;b"] + [
        f"{t + pd.Timedelta(seconds=7 * i % 50):%d.%m.%Y %H:%M:%S};{i},5;{i % 7},25"
        for i, t in enumerate(times)
    ]
    lines[3] = lines[3].replace("2,5", "-99,9")
    lines[4] = lines[4].replace("3,25", "<2,0")
    lines[5] = lines[5].replace("4,5", "Ausfall")
    (tmp_path / "m.csv").write_bytes("\n".join(lines).encode("latin-1"))
    (tmp_path / "site.toml").write_text(
        'file = "m.csv"\nencoding = "latin-1"\nstep = "1h"\naggregate = "last"\n'
        'missing = [-99.9, "Ausfall"]\ncensored = "half"\ndecimal = "comma"\n'
    )
    settings = read_settings(ReadingSettings, tmp_path / "site.toml")
    taken = snapshot(settings, GRID)
    wanted = np.array([np.arange(48) + 0.5, np.arange(48) % 7 + 0.25])
    wanted[0, [2, 4]], wanted[1, 3] = np.nan, 1.0
    np.testing.assert_array_equal(taken.values, wanted)
    for words, fault in (("complete_grid = true", "network's grid"), ("shet = 'a'", "'sheet'")):
        (tmp_path / "bad.toml").write_text(f'file = "m.csv"\n{words}\n')
        with pytest.raises(InputError, match=fault):
            read_settings(ReadingSettings, tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("shift", "words"), [("30min", "lie between the network's slots"), ("9999h", "no reading lies")]
)
def test_other_times_are_refused_with_a_plain_word(frame, tmp_path, shift, words):
    moved = frame.set_axis(frame.index + pd.Timedelta(shift)).rename_axis("time")
    moved.to_csv(tmp_path / "all.csv")
    with pytest.raises(InputError, match=words):
        snapshot(ReadingSettings(file=tmp_path / "all.csv"), GRID)


def test_none_or_two_sources(tmp_path):
    for settings in ({}, {"file": "a", "folder": "b"}):
        with pytest.raises(InputError, match="one of file, folder and query"):
            ReadingSettings.check(settings)
    with pytest.raises(InputError, match="no file of readings"):
        snapshot(ReadingSettings(folder=tmp_path), GRID)


def check_database(address, frame):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.pool.NullPool)
    long_form(frame).to_sql("readings", engine, index=False)
    frame.reset_index().to_sql("wide", engine, index=False)
    for query in ("select time, sensor, value from readings", "select * from wide"):
        taken = snapshot(ReadingSettings(query=query, database=address), GRID)
        assert taken.ids == ["a", "b", "c"]
        np.testing.assert_array_equal(taken.values, frame.to_numpy().T)
    twice = "select * from readings union all select time, sensor, value + 1 from readings"
    with pytest.raises(InputError, match="appears more than once"):
        snapshot(ReadingSettings(query=twice, database=address), GRID)
    with pytest.raises(InputError, match="cannot be read") as caught:
        snapshot(ReadingSettings(query="select nothing from nowhere", database=address), GRID)
    assert address not in str(caught.value)
    engine.dispose()


def test_sqlite(frame, tmp_path, monkeypatch):
    address = f"sqlite:///{tmp_path / 'readings.db'}"
    check_database(address, frame)
    query = "select time, sensor, value from readings"
    with pytest.raises(InputError, match="no database"):
        snapshot(ReadingSettings(query=query), GRID)
    monkeypatch.setenv("FLFL_DATABASE", address)
    assert snapshot(ReadingSettings(query=query), GRID).ids == ["a", "b", "c"]
    with pytest.raises(InputError, match="no column 'station'"):
        snapshot(ReadingSettings(query=query, layout="long", sensor_column="station"), GRID)


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory):
    """A real server of Debian's package, as an unprivileged user, on a free port."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    if not found:
        pytest.skip("postgresql is not installed: its reader is not tested here")
    folder, port = tmp_path_factory.mktemp("postgresql"), free_port()
    binaries = os.path.dirname(found[-1])
    user = getpass.getuser()
    prefix = []
    if os.geteuid() == 0:
        user = "postgres"
        home = folder
        while home != home.parent:
            home.chmod(home.stat().st_mode | 0o055)
            home = home.parent
        entry = pwd.getpwnam(user)
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        prefix = [shutil.which("setpriv"), "--reuid", user, "--regid", user, "--clear-groups"]

    def run(*command):
        subprocess.run([*prefix, *command], check=True, capture_output=True, cwd=folder)

    data = str(folder / "data")
    run(f"{binaries}/initdb", "-D", data, "-A", "trust", "-U", "owner", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    control = [f"{binaries}/pg_ctl", "-D", data, "-w", "-t", "600"]
    run(*control, "-l", str(folder / "log"), "-o", options, "start")
    yield f"postgresql+psycopg://owner@127.0.0.1:{port}/postgres"
    run(*control, "-m", "immediate", "stop")


def test_postgresql(frame, postgresql):
    pytest.importorskip("psycopg")
    check_database(postgresql, frame)
