"""Letters through a real socket of this machine."""

import socket
import stat
import struct
import threading
from contextlib import suppress

import pytest

from flfl.engines.door import MAGIC, Door, NobodyError, hand_out, knock
from flfl.engines.letters import Letter
from flfl.engines.link import Message
from flfl.errors import FLFLError, InputError


class Answering:
    """A door with somebody behind it, who answers each letter with itself under another name."""

    def __init__(self, path):
        self.door, self.ended, self.letters = Door(path), threading.Event(), []
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while not self.ended.is_set():
            with self.door.visit(0.05) as come:
                if come is not None:
                    letter, caller = come
                    self.letters.append(letter)
                    hand_out(Letter({"site": "north"}, letter.messages), caller)

    def close(self):
        self.ended.set()
        self.thread.join()
        self.door.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "door" / "north.sock"


@pytest.fixture
def answering(path):
    made = Answering(path)
    yield made
    made.close()


def test_a_letter_goes_in_and_the_reply_comes_out(answering, path):
    letter = Letter(
        {"nonce": "1"}, (Message("plan"), Message("question", "r", {}, b"x" * 3_000_000))
    )
    reply = knock(path, letter, 10)
    assert reply == Letter({"site": "north"}, letter.messages)
    assert answering.letters == [letter]


def test_only_the_owner_and_its_group_may_knock(answering, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


@pytest.mark.parametrize(
    "rubbish",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<4sI", MAGIC, 10**6),
        struct.pack("<4sIQ", MAGIC, 1, 2**40),
        struct.pack("<4sIQ", MAGIC, 1, 8) + b"[{}, [x]",
        struct.pack("<4sIQ", MAGIC, 1, 8) + b"[{}",
    ],
)
def test_rubbish_is_dropped_and_the_next_letter_is_answered(answering, path, rubbish):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        caller.sendall(rubbish)
    assert knock(path, Letter({}), 10).header == {"site": "north"}
    assert answering.letters == [Letter({})]


def test_who_sends_a_byte_now_and_then_does_not_keep_others_out(answering, path, monkeypatch):
    monkeypatch.setattr("flfl.engines.door._TALK_SECONDS", 0.5)
    ended = threading.Event()
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(str(path))
        slow.sendall(struct.pack("<4sIQ", MAGIC, 1, 200_000))

        def dribble():
            with suppress(OSError):
                while not ended.wait(0.1):
                    slow.sendall(b" ")

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            assert knock(path, Letter({}), 10).header == {"site": "north"}
        finally:
            ended.set()
            thread.join()


def test_who_does_not_wait_for_the_reply_disturbs_nobody(answering, path):
    big = Letter({}, (Message("x", data=bytes(5_000_000)),))
    with pytest.raises(FLFLError, match="not answered"):
        knock(path, big, 1e-6)
    assert knock(path, Letter({}), 10).header == {"site": "north"}


def test_nobody_behind_the_door(path):
    with pytest.raises(NobodyError, match=r"north.sock: nobody is behind the door"):
        knock(path, Letter({}), 1)
    Door(path)._socket.close()
    with pytest.raises(NobodyError):
        knock(path, Letter({}), 1)


def test_the_door_of_an_earlier_process_is_replaced_and_no_other_file(path):
    Door(path)._socket.close()
    Door(path).close()
    assert not path.exists()
    path.write_text("readings")
    with pytest.raises(InputError, match="the door cannot be opened"):
        Door(path)
    assert path.read_text() == "readings"


def test_a_door_that_was_removed_or_replaced_is_noticed_and_another_ones_is_left(path):
    first = Door(path)
    assert first.found
    path.unlink()
    assert not first.found
    path.write_text("another file")
    assert not first.found
    first.close()
    assert path.exists()


def test_a_door_at_which_somebody_answers_is_not_taken(answering, path):
    with pytest.raises(InputError, match="another process answers"):
        Door(path)
    assert knock(path, Letter({}), 10).header == {"site": "north"}


def test_rights_that_an_operator_gives_stay(path):
    door = Door(path)
    path.chmod(0o600)
    assert door.found
    door.close()


def test_a_path_that_is_longer_than_the_system_takes(tmp_path):
    path = tmp_path / ("x" * 120) / "north.sock"
    made = Answering(path)
    try:
        assert knock(path, Letter({}), 10).header == {"site": "north"}
    finally:
        made.close()
    assert not path.exists()
