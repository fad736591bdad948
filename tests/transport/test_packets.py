"""Messages in packets: whole or not at all, whatever comes between."""

import json
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.errors import FLFLError
from flfl.transport.link import Message
from flfl.transport.mqtt.packets import Inbox, PacketError, packets
from flfl.transport.mqtt.topics import Topics

MESSAGE = Message("answer", "run", {"re": "abc", "n": 3}, bytes(range(256)) * 20)


@given(
    data=st.binary(max_size=3000),
    piece=st.integers(1, 700),
    packed=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_any_order_and_any_repetition_give_the_message(data, piece, packed, seed):
    message = Message("question", "run-1", {"shared": "", "cut": 0}, data)
    parts = packets(message, piece, packed)
    rng = random.Random(seed)
    stream = parts * 2
    rng.shuffle(stream)
    inbox = Inbox()
    heard = [whole for part in stream if (whole := inbox.add(part)) is not None]
    assert heard
    assert all(whole == message for whole in heard)


def test_the_same_message_has_the_same_id_and_no_other_has():
    changed = [
        Message("answer", "run", {"re": "abc", "n": 4}, MESSAGE.data),
        Message("answer", "run2", dict(MESSAGE.about), MESSAGE.data),
        Message("answer", "run", dict(MESSAGE.about), MESSAGE.data[:-1]),
        Message("refused", "run", dict(MESSAGE.about), MESSAGE.data),
    ]
    assert Message("answer", "run", {"n": 3, "re": "abc"}, MESSAGE.data).id == MESSAGE.id
    assert len({message.id for message in [MESSAGE, *changed]}) == 5


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_one_flipped_bit_is_noticed(at, bit):
    (packet,) = packets(MESSAGE)
    damaged = bytearray(packet)
    damaged[at % len(packet)] ^= 1 << bit
    with pytest.raises(PacketError):
        Inbox().add(bytes(damaged))


@given(st.binary(max_size=200))
def test_anything_else_is_refused_without_a_fuss(data):
    with pytest.raises(PacketError):
        Inbox().add(data)


def forged(**changes):
    """A packet with a good checksum and a header of the sender's choosing."""
    (packet,) = packets(MESSAGE)
    (length,) = struct.unpack_from("<H", packet, 8)
    header = json.loads(packet[10 : 10 + length]) | changes
    text = json.dumps(header).encode()
    body = struct.pack("<H", len(text)) + text + packet[10 + length :]
    return b"FLM1" + struct.pack("<I", zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "changes",
    [
        {"size": 10**12},
        {"size": -1},
        {"size": 1},
        {"of": 0},
        {"of": 10**9},
        {"of": 2**20, "size": 2**26},
        {"piece": 5},
        {"piece": True},
        {"id": 7},
        {"id": "0" * 32},
        {"kind": None},
        {"about": {"x": [1]}},
        {"about": {"x": float("nan")}},
        {"packed": True},
        {"unknown": 1},
    ],
)
def test_a_header_that_lies_is_refused(changes):
    with pytest.raises(FLFLError):
        Inbox().add(forged(**changes))


def test_ten_times_the_limit_is_refused_and_memory_stays_bounded():
    inbox = Inbox(largest=1000, unfinished=2)
    for part in packets(Message("answer", "run", {}, bytes(10_000)), 500):
        with pytest.raises(PacketError, match="at most 1000"):
            inbox.add(part)
    for number in range(50):
        inbox.add(packets(Message("answer", "run", {"n": number}, bytes(900)), 500)[0])
    assert sum(partial.size for partial in inbox._partial.values()) <= 2 * 1000


def test_a_bomb_does_not_unfold():
    small = packets(Message("answer", "run", {}, bytes(10**6)), packed=True)
    assert sum(map(len, small)) < 2000
    with pytest.raises(PacketError):
        Inbox(largest=10_000).add(small[0])


def test_no_name_escapes_its_branch():
    topics = Topics("a/b+c#")
    for name in ("x/../y", "+", "#", "a b", "é"):
        topic = topics.from_site(name)
        assert topic.count("/") == 3
        assert not set("+#") & set(topic)
        assert topics.parse(topic) == ("from", name)
