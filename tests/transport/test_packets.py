"""Messages in packets: whole or not at all, whatever comes between."""

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.codec import CodecError, pack, unpack
from flfl.transport.link import Message
from flfl.transport.mqtt import Inbox, Topics, packets

MESSAGE = Message("answer", "run", {"re": "abc", "n": 3}, bytes(range(256)) * 20)
LARGEST = 10_000


@given(data=st.binary(max_size=3000), piece=st.integers(1, 700), seed=st.integers(0, 10**6))
def test_any_order_and_any_repetition_give_the_message(data, piece, seed):
    message = Message("question", "run-1", {"a": "", "cut": 0}, data)
    stream = packets(message, piece) * 2
    random.Random(seed).shuffle(stream)
    inbox = Inbox(LARGEST)
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


def taken(packet):
    """What an inbox makes of a packet."""
    try:
        return Inbox(LARGEST).add(packet)
    except CodecError:
        return None


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_one_flipped_bit_gives_no_message(at, bit):
    (packet,) = packets(MESSAGE, LARGEST)
    damaged = bytearray(packet)
    damaged[at % len(packet)] ^= 1 << bit
    assert taken(bytes(damaged)) is None


@given(st.binary(max_size=200))
def test_anything_else_gives_no_message(data):
    assert taken(data) is None


def hashed(data):
    return hashlib.sha256(data).digest()[:16]


@pytest.mark.parametrize(
    "packet",
    [
        ["0" * 16, 0, 1, b"x"], [b"0", 0, 1, b"x"], [hashed(b"x"), 1, 1, b"x"],
        [hashed(b"x"), -1, 1, b"x"], [hashed(b"x"), True, 2, b"x"], [hashed(b""), 0, 1, b""],
        [hashed(b"x"), 0, 2**20, b"x"], [hashed(b"x"), 0, 1, b"x"], [hashed(b"x"), 0, 1],
        {"id": 1}, None, [hashed(b"x"), 0, 1, bytes(LARGEST + 100)],
    ],
)  # fmt: skip
def test_a_packet_that_lies_is_refused(packet):
    with pytest.raises(CodecError):
        Inbox(LARGEST).add(pack(packet))


@pytest.mark.parametrize(
    "value",
    [
        [], ["answer", "run", {}], ["answer", 7, {}, b""], ["answer", "run", [], b""],
        ["answer", "run", {"x": [1]}, b""], ["answer", "run", {"x": float("nan")}, b""],
        ["answer", "run", {"x": True}, b""], ["answer", "run", {}, "text"],
    ],
)  # fmt: skip
def test_a_whole_that_is_no_message_is_refused(value):
    data = pack(value)
    with pytest.raises(CodecError):
        Inbox(LARGEST).add(pack([hashed(data), 0, 1, data]))


def test_ten_times_the_limit_is_refused_and_memory_stays_bounded():
    inbox = Inbox(largest=1000, unfinished=2)
    first, second, third, *_ = packets(Message("answer", "run", {}, bytes(10_000)), 500)
    assert inbox.add(first) is inbox.add(second) is None
    with pytest.raises(CodecError, match="more than 1000"):
        inbox.add(third)
    for number in range(50):
        inbox.add(packets(Message("answer", "run", {"n": number}, bytes(900)), 500)[0])
    assert sum(partial.size for partial in inbox._partial.values()) <= 2 * 1000


def test_a_piece_that_somebody_damaged_spoils_one_sending_only():
    inbox, parts = Inbox(LARGEST), packets(MESSAGE, 2000)
    key, number, count, piece = unpack(parts[1])
    inbox.add(parts[0])
    inbox.add(pack([key, number, count, bytes(len(piece))]))
    with pytest.raises(CodecError, match="damaged"):
        inbox.add(parts[2])
    assert [inbox.add(part) for part in parts][-1] == MESSAGE


def test_no_name_escapes_its_branch():
    topics = Topics("a/b+c#")
    for name in ("x/../y", "+", "#", "a b", "é"):
        topic = topics.of("from", name)
        assert topic.count("/") == 3
        assert not set("+#") & set(topic)
        assert topics.parse(topic) == ("from", name)
