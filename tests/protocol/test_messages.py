"""The byte form: what is refused, and why."""

import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flfl.protocol.messages import (
    Answer,
    Exchange,
    Field,
    MessageError,
    Question,
    decode_answer,
    decode_question,
    encode,
)

PROTOCOL = {
    "step": Exchange(
        {"Q": Field("float", ("slots", 2)), "eta": Field("float")},
        {"total": Field("sum", ("slots",))},
    )
}
SIZES = {"slots": 3}


def question(**changes):
    body = {"Q": np.arange(6.0).reshape(3, 2), "eta": np.array(0.5)} | changes
    return Question("run", 7, "step", "*", body)


def tampered(data, **header):
    """The same message with another header and a right checksum."""
    _, _, length = struct.unpack_from("<4sHI", data)
    old = json.loads(data[10 : 10 + length])
    text = json.dumps(old | header).encode()
    return sealed(data[:6] + struct.pack("<I", len(text)) + text, data[10 + length : -8])


def sealed(head, arrays):
    """A message with a right check, whatever it says."""
    words = sum(struct.unpack(f"<{len(arrays) // 8}Q", arrays))
    return head + arrays + struct.pack("<Q", (zlib.crc32(head) + words) % 2**64)


def test_round_trip():
    data = encode(question(), PROTOCOL)
    back = decode_question(data, PROTOCOL, SIZES)
    assert (back.run, back.number, back.kind, back.to) == ("run", 7, "step", "*")
    np.testing.assert_array_equal(back.body["Q"], np.arange(6.0).reshape(3, 2))
    assert back.body["eta"].shape == ()
    answer = Answer("run", 7, "step", "north", {"total": np.array([1, -2, 3])})
    assert decode_answer(encode(answer, PROTOCOL), PROTOCOL, SIZES).body["total"].tolist() == [
        1,
        -2,
        3,
    ]


def test_decoded_arrays_cannot_be_written():
    back = decode_question(encode(question(), PROTOCOL), PROTOCOL, SIZES)
    with pytest.raises(ValueError, match="read-only"):
        back.body["Q"][0] = 1


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (question(Q=np.full((3, 2), np.nan)), "not finite"),
        (question(Q=np.full((3, 2), np.inf)), "not finite"),
        (question(Q=np.zeros((3, 3))), "shape"),
        (question(extra=np.zeros(1)), "must hold"),
        (Question("run", 7, "other", "*", {}), "unknown kind"),
    ],
)
def test_encoding_refuses(message, words):
    with pytest.raises(MessageError, match=words):
        encode(message, PROTOCOL)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d[:5], "cut short"),
        (lambda d: d[:-9], "do not add up"),
        (lambda d: d[:-16], "does not match"),
        (lambda d: d + b"x", "do not add up"),
        (lambda d: d + bytes(8), "does not match"),
        (lambda d: b"JUNK" + d[4:], "not a message"),
        (lambda d: d[:4] + b"\x09\x00" + d[6:], "version 9"),
        (lambda d: d[:40] + bytes([d[40] ^ 1]) + d[41:], "does not match"),
        (lambda d: d[:-20] + bytes([d[-20] ^ 1]) + d[-19:], "does not match"),
        (lambda d: tampered(d, kind="other"), "unknown kind"),
        (lambda d: tampered(d, number="7"), "'number' must be int"),
        (lambda d: tampered(d, number=True), "'number' must be int"),
        (lambda d: tampered(d, more=1), "exactly"),
        (lambda d: tampered(d, arrays=[["Q", "float", [3, 2]]]), "too many"),
        (lambda d: tampered(d, arrays=[["Q", "float", [9, 9]]]), "cut short"),
        (lambda d: tampered(d, arrays=[["Q", "object", [3, 2]]]), "not expected"),
        (lambda d: tampered(d, arrays=[["Q", "float", [-3, -2]]]), "malformed"),
        (lambda d: tampered(d, arrays=[["Q", "float", [2**62, 4]]]), "malformed"),
        (lambda d: tampered(d, arrays=[["Q", "float", [0, 2**30, 2**30]]]), "malformed"),
        (lambda d: tampered(d, arrays=[["Q", "float", [2, 3]], ["eta", "float", []]]), "shape"),
    ],
)
def test_decoding_refuses(change, words):
    data = encode(question(), PROTOCOL)
    with pytest.raises(MessageError, match=words):
        decode_question(change(data), PROTOCOL, SIZES)


def test_a_known_dimension_must_match():
    data = encode(question(), PROTOCOL)
    with pytest.raises(MessageError, match=r"shape \(3, 2\), expected \(4, 2\)"):
        decode_question(data, PROTOCOL, {"slots": 4})


def test_not_finite_numbers_are_refused_on_arrival():
    data = encode(question(), PROTOCOL)
    at = data.index(struct.pack("<6d", *range(6)))
    arrays = data[at:-8].replace(struct.pack("<d", 3.0), struct.pack("<d", float("nan")))
    with pytest.raises(MessageError, match="not finite"):
        decode_question(sealed(data[:at], arrays), PROTOCOL, SIZES)


def test_an_answer_is_not_a_question():
    answer = Answer("run", 7, "step", "north", {"total": np.zeros(3, dtype=np.int64)})
    with pytest.raises(MessageError, match="exactly"):
        decode_question(encode(answer, PROTOCOL), PROTOCOL, SIZES)


@given(st.binary(max_size=200), st.integers(0, 120), st.integers(0, 255))
def test_noise_is_refused_and_never_crashes(noise, position, byte):
    data = encode(question(), PROTOCOL)
    position %= len(data)
    flipped = data[:position] + bytes([byte]) + data[position + 1 :]
    for attempt in (noise, data[:position] + noise, flipped):
        if attempt == data:
            continue
        with pytest.raises(MessageError):
            decode_question(attempt, PROTOCOL, SIZES)
