"""The byte form: what is refused, and why. Sums in fixed point: exact, and loud if too large."""

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flfl.codec import unwrap, wrap
from flfl.errors import OutOfRangeError
from flfl.protocol.messages import (
    LARGEST,
    VERSION,
    Answer,
    Exchange,
    Field,
    ProtocolError,
    Question,
    add,
    decode,
    encode,
    from_fixed,
    to_fixed,
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


FIELDS = ("form", "run", "number", "kind", "site", "body")


def tampered(data, more=(), **changes):
    """The same message with other fields and a right check."""
    fields = dict(zip(FIELDS, unwrap(b"FLFL", VERSION, data), strict=True)) | changes
    return wrap(b"FLFL", VERSION, [*fields.values(), *more])


def claimed(kind, shape, raw):
    """The same message with a ``Q`` that claims a type and a shape."""
    array = msgpack.ExtType(1, msgpack.packb([kind, shape, raw]))
    return lambda data: tampered(data, body={"Q": array, "eta": np.array(0.5)})


def test_round_trip():
    data = encode(question(), PROTOCOL)
    back = decode(Question, data, PROTOCOL, SIZES)
    assert (back.run, back.number, back.kind, back.site) == ("run", 7, "step", "*")
    np.testing.assert_array_equal(back.body["Q"], np.arange(6.0).reshape(3, 2))
    assert back.body["eta"].shape == ()
    answer = Answer("run", 7, "step", "north", {"total": np.array([1, -2, 3])})
    assert decode(Answer, encode(answer, PROTOCOL), PROTOCOL, SIZES).body["total"].tolist() == [
        1,
        -2,
        3,
    ]


def test_decoded_arrays_cannot_be_written():
    back = decode(Question, encode(question(), PROTOCOL), PROTOCOL, SIZES)
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
    with pytest.raises(ProtocolError, match=words):
        encode(message, PROTOCOL)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d[:5], "cut short"),
        (lambda d: d[:-9], "does not match"),
        (lambda d: d + b"x", "does not match"),
        (lambda d: b"JUNK" + d[4:], "not a message"),
        (lambda d: d[:4] + b"\x09\x00" + d[6:], "version 9"),
        (lambda d: d[:40] + bytes([d[40] ^ 1]) + d[41:], "does not match"),
        (lambda d: d[:-20] + bytes([d[-20] ^ 1]) + d[-19:], "does not match"),
        (lambda d: tampered(d, form="Answer"), "no Question"),
        (lambda d: tampered(d, kind="other"), "unknown kind"),
        (lambda d: tampered(d, number="7"), "must hold its form"),
        (lambda d: tampered(d, number=True), "must hold its form"),
        (lambda d: tampered(d, site=1), "must hold its form"),
        (lambda d: tampered(d, body=[]), "must hold its form"),
        (lambda d: tampered(d, more=[1]), "must hold its form"),
        (lambda d: wrap(b"FLFL", VERSION, {"form": "Question"}), "must hold its form"),
        (lambda d: tampered(d, body={"Q": np.zeros((3, 2))}), "must hold"),
        (lambda d: tampered(d, body={"Q": 1, "eta": np.array(0.5)}), "no array of"),
        (claimed("f8", [3, 2], bytes(40)), "does not fit its bytes"),
        (claimed("f8", [3, 2], bytes(56)), "does not fit its bytes"),
        (claimed("O8", [3, 2], bytes(48)), "malformed"),
        (claimed("i8", [3, 2], bytes(48)), "no array of"),
        (claimed("f4", [3, 2], bytes(24)), "no array of"),
        (claimed("f8", [-3, -2], bytes(48)), "malformed"),
        (claimed("f8", [2**62, 4], b""), "malformed"),
        (claimed("f8", [0, 2**30, 2**30], b""), "too large"),
        (claimed("f8", [2, 3], bytes(48)), "shape"),
        (claimed(["f8"], [3, 2], bytes(48)), "damaged"),
    ],
)
def test_decoding_refuses(change, words):
    data = encode(question(), PROTOCOL)
    with pytest.raises(ProtocolError, match=words):
        decode(Question, change(data), PROTOCOL, SIZES)


def test_a_known_dimension_must_match():
    data = encode(question(), PROTOCOL)
    with pytest.raises(ProtocolError, match=r"shape \(3, 2\), expected \(4, 2\)"):
        decode(Question, data, PROTOCOL, {"slots": 4})


def test_not_finite_numbers_are_refused_on_arrival():
    data = encode(question(), PROTOCOL)
    body = {"Q": np.full((3, 2), np.nan), "eta": np.array(0.5)}
    with pytest.raises(ProtocolError, match="not finite"):
        decode(Question, tampered(data, body=body), PROTOCOL, SIZES)


def test_an_answer_is_not_a_question():
    answer = Answer("run", 7, "step", "north", {"total": np.zeros(3, dtype=np.int64)})
    with pytest.raises(ProtocolError, match="no Question"):
        decode(Question, encode(answer, PROTOCOL), PROTOCOL, SIZES)


@given(st.binary(max_size=200), st.integers(0, 120), st.integers(0, 255))
def test_noise_is_refused_and_never_crashes(noise, position, byte):
    data = encode(question(), PROTOCOL)
    position %= len(data)
    flipped = data[:position] + bytes([byte]) + data[position + 1 :]
    for attempt in (noise, data[:position] + noise, flipped):
        if attempt == data:
            continue
        with pytest.raises(ProtocolError):
            decode(Question, attempt, PROTOCOL, SIZES)


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(arrays(float, (6, 3), elements=numbers), st.permutations(range(6)))
def test_the_sum_does_not_depend_on_the_order_or_the_grouping(values, order):
    terms = [to_fixed(row) for row in values]
    straight = add(terms)
    np.testing.assert_array_equal(add([terms[i] for i in order]), straight)
    np.testing.assert_array_equal(add([add(terms[:2]), add(terms[2:])]), straight)


@given(arrays(float, 5, elements=numbers))
def test_rounding_is_at_most_half_a_step(values):
    assert np.abs(from_fixed(to_fixed(values)) - values).max() <= 2.0**-31


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2 * LARGEST, -2 * LARGEST])
def test_what_does_not_fit_is_refused(bad):
    with pytest.raises(OutOfRangeError):
        to_fixed(np.array([0.0, bad]))


def test_a_sum_that_would_wrap_around_is_refused():
    largest = to_fixed(np.array([LARGEST]))
    with pytest.raises(OutOfRangeError, match="64 bits"):
        add([largest] * 9)
