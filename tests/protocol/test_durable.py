"""Parties that are killed at any moment and told everything again: the same bits."""

import random
import resource
import shutil
import signal
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from flfl.datasets.synthetic import synthesize
from flfl.errors import FLFLError, InputError
from flfl.model.basis import map_box, to_plane
from flfl.protocol.added_error import AddedError
from flfl.protocol.client import Client
from flfl.protocol.copier import Copier
from flfl.protocol.copy_store import CopyStore
from flfl.protocol.journal import (
    DurableCoordinator,
    DurableSite,
    Journal,
    JournalError,
    ReplayError,
)
from flfl.protocol.owner import Owner, Table
from flfl.protocol.plan import Plan
from flfl.protocol.schema import PROTOCOL, network_to_arrays
from flfl.protocol.server import Coordination
from flfl.protocol.session import Site
from flfl.protocol.traffic import Traffic
from flfl.secagg import Identity, Roster, SecureClient, SecureServer
from flfl.transport import local


@pytest.fixture(scope="module")
def network():
    return synthesize(8, 200, rank=2, noise=0.5, missing=0.3, rng=np.random.default_rng(0))


class Parties:
    """A coordinator and four sites that can be made anew from their journals and copy stores."""

    def __init__(self, network, folder, secure):
        folder.mkdir(exist_ok=True)
        self.table, self.sensors = network
        self.folder, self.secure = folder, secure
        self.plane = to_plane(self.sensors.coordinates, self.sensors.kind)
        self.plan = Plan(box=map_box(self.plane), rank=3, rounds=2, period=24)
        self.names = [f"site{n}" for n in range(4)]
        self.identities = {n: Identity.generate() for n in self.names}
        self.roster = Roster({n: i.public for n, i in self.identities.items()})
        for name in self.names:
            CopyStore.create(folder / f"{name}.copies", folder / f"{name}.marker").close()
        self.sites = {name: self.site(name) for name in self.names}

    def site(self, name):
        n = int(name[4:])
        Y, known = self.table.values.to_numpy().T[n::4], self.table.known.T[n::4]
        slots = np.arange(len(self.table.values))
        own = Table(
            name, self.sensors.ids[n::4], Y, known, self.plane[n::4], self.table.positions,
            slots * 3600, 3600,
        )  # fmt: skip
        secret = name.encode().ljust(32, b"!")
        store = CopyStore.open(self.folder / f"{name}.copies", self.folder / f"{name}.marker")
        hiding = SecureClient(name, self.identities[name], self.roster, secret)
        client = Client(Owner(own, Copier(secret, store), AddedError()), self.plan, hiding)
        site = Site(name, client, PROTOCOL, hiding if self.secure else None)
        return DurableSite(site, self.folder / f"{name}.journal")

    def coordinator(self):
        self.run = Coordination(self.plan, self.table.positions, Traffic())
        sums = SecureServer(self.roster, "run") if self.secure else None
        about = self.run.program(), PROTOCOL, self.names, self.run.sizes
        return DurableCoordinator(self.folder / "coordinator.journal", *about, security=sums)

    def carry(self, crash):
        """Until the end; ``crash`` says before each message who dies: a site, the coordinator."""
        coordinator = self.coordinator()
        outbox = list(coordinator.start())
        while not coordinator.done:
            name, question = outbox.pop(0)
            dies = crash()
            if dies == "site":
                self.sites[name].close()
                self.sites[name] = self.site(name)
            answer = self.sites[name].receive(question)
            if dies == "site after":
                self.sites[name].close()
                self.sites[name] = self.site(name)
                assert self.sites[name].receive(question) == answer
            if dies == "before":
                coordinator.close()
                coordinator = self.coordinator()
                outbox = list(coordinator.start())
                continue
            outbox += coordinator.receive(answer)
            if dies == "after":
                coordinator.close()
                coordinator = self.coordinator()
                outbox = list(coordinator.start())
        for name, site in self.sites.items():  # one that was killed is as it was
            site.close()
            assert self.site(name).replayed
        return network_to_arrays(self.run.network)


@pytest.mark.parametrize("secure", [False, True])
def test_killed_and_resumed_gives_the_same_bits(network, tmp_path, secure):
    whole = Parties(network, tmp_path / "whole", secure).carry(lambda: "")
    rng = random.Random(3)
    fates = [*[""] * 20, "site", "site after", "before", "after"]
    broken = Parties(network, tmp_path / "broken", secure).carry(lambda: rng.choice(fates))
    for name, array in whole.items():
        np.testing.assert_array_equal(broken[name], array)


@pytest.mark.parametrize("secure", [False, True])
def test_a_coordinator_that_gave_up_a_site_remembers_that(network, tmp_path, secure):
    parties = Parties(network, tmp_path, secure)
    coordinator = parties.coordinator()
    outbox = list(coordinator.start())
    while coordinator.answered < 1:
        name, question = outbox.pop(0)
        outbox += coordinator.receive(parties.sites[name].receive(question))
    assert coordinator.can_lose("site1")
    outbox += coordinator.absent("site1")
    coordinator.close()
    coordinator = parties.coordinator()
    resumed = dict(coordinator.start())
    assert coordinator.sites == ("site0", "site2", "site3")
    assert resumed == {n: q for n, q in outbox if n != "site1"}
    # Three of four are the fewest for a secure sum; a plain one goes on with whoever is left.
    assert coordinator.can_lose("site0") == (not secure)


def test_a_question_answered_once_is_answered_the_same_and_no_other_of_its_number(
    network, tmp_path
):
    parties = Parties(network, tmp_path, True)
    coordinator = parties.coordinator()
    outbox = list(coordinator.start())
    while outbox:
        name, question = outbox.pop(0)
        answer = parties.sites[name].receive(question)
        again = parties.sites[name].receive(question)
        assert again == answer
        if coordinator.answered > 3:
            break
        earlier = question
        outbox += coordinator.receive(answer)
    with pytest.raises(FLFLError):
        parties.sites[name].receive(earlier)
    assert parties.sites[name].receive(question) == answer


def told_some(network, folder):
    """Parties that have heard the first questions of a run."""
    parties = Parties(network, folder, False)
    inner = parties.coordinator()
    outbox = list(inner.start())
    while inner.answered < 4:
        name, question = outbox.pop(0)
        outbox += inner.receive(parties.sites[name].receive(question))
    return parties


def test_other_readings_at_the_restart_change_nothing_that_was_copied(network, tmp_path):
    parties, (table, _) = told_some(network, tmp_path), network
    parties.table = replace(table, values=table.values + 1.0 + table.values**2)
    assert parties.site("site0").replayed >= 4


def test_another_program_at_the_restart_is_noticed(network, tmp_path):
    parties = told_some(network, tmp_path)
    parties.plan = replace(parties.plan, rank=1)
    with pytest.raises(ReplayError, match="not the one that was sent before"):
        parties.site("site0")


ENTRIES = [{"message": bytes([n]) * 40} for n in range(5)]


@pytest.fixture
def killed(tmp_path):
    """The journal of a process that was killed: its last entries are in the write-ahead log."""
    journal = Journal(tmp_path / "open" / "journal")
    for entry in ENTRIES:
        journal.append(entry)
    shutil.copytree(tmp_path / "open", tmp_path / "killed")
    journal.close()
    return tmp_path / "killed" / "journal"


class TestJournal:
    def test_a_torn_last_write_is_cut_off_at_every_length(self, killed):
        log = killed.with_name("journal-wal")
        data, before = log.read_bytes(), killed.read_bytes()
        found = set()
        for end in range(len(data), 0, -397):
            killed.write_bytes(before)
            log.write_bytes(data[:end])
            journal = Journal(killed)
            left = list(journal)
            assert left == ENTRIES[: len(left)]
            found.add(len(left))
            journal.append({"absent": "next"})
            journal.close()
            journal = Journal(killed)
            assert list(journal) == [*left, {"absent": "next"}]
            assert len(journal) == len(left) + 1
            journal.close()
        assert found == set(range(6))

    def test_damage_in_any_page_is_an_error_or_changes_nothing(self, killed):
        Journal(killed).close()
        data, refused = killed.read_bytes(), []
        for at in range(0, len(data), 37):
            killed.write_bytes(data[:at] + bytes([data[at] ^ 0x15]) + data[at + 1 :])
            try:
                journal = Journal(killed)
                assert list(journal) == ENTRIES
                journal.close()
            except InputError as error:
                refused.append(str(error))
        assert refused
        assert all(str(killed) in said and "Restore the file" in said for said in refused)

    @pytest.mark.parametrize(
        "damage",
        [
            "update entry set body = x'81a7' || substr(body, 3) where number = 2",
            "update entry set chain = zeroblob(32) where number = 5",
            "delete from entry where number = 3",
            "update entry set number = number + 1 where number = 5",
            "update entry set body = 7 where number = 1",
            "drop table entry",
            "pragma user_version = 9",
        ],
    )
    def test_entries_that_were_changed_or_removed_are_an_error(self, killed, damage):
        database = sqlite3.connect(killed)
        database.execute(damage)
        database.commit()
        database.close()
        with pytest.raises(InputError, match=r"journal cannot be used.*Restore the file"):
            list(Journal(killed))

    def test_a_stranger_is_not_overwritten(self, tmp_path):
        path = tmp_path / "journal"
        path.write_bytes(b"something else")
        with pytest.raises(InputError, match="journal cannot be used"):
            Journal(path)
        assert path.read_bytes() == b"something else"

    def test_only_the_owner_reads_it(self, tmp_path):
        journal = Journal(tmp_path / "journal")
        journal.append(1)
        files = list(tmp_path.iterdir())
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        journal.close()
        Journal.remove(tmp_path / "journal")
        assert not list(tmp_path.iterdir())

    def test_a_full_disk_leaves_the_entries_before(self, tmp_path):
        journal = Journal(tmp_path / "journal")
        journal.append(b"kept")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
        try:
            with pytest.raises(JournalError, match="cannot write"):
                journal.append(bytes(50_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, old)
        journal.append(b"after")
        assert list(Journal(tmp_path / "journal")) == [b"kept", b"after"]


def test_in_process_secrets_stay_random():
    answers = []
    for _ in range(2):
        server, clients = local.secure(["a", "b", "c"])
        answers += [clients[name].receive(data)[-64:] for name, data in server.start()]
    assert len(set(answers)) == 6
