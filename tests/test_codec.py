"""One byte form: what goes in comes out, and nothing else is read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flfl.codec import CodecError, pack, unpack

DTYPES = st.sampled_from(["<f8", "<i8", "<u8", "<f4", "u1", "?"])
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary()
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(PLAIN)
def test_plain_values_come_back(value):
    assert unpack(pack(value)) == value


@given(ARRAYS)
def test_arrays_come_back_bit_for_bit_and_read_only(array):
    (back,) = unpack(pack([array]))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert not back.flags.writeable


@given(ARRAYS, st.data())
def test_damaged_bytes_are_refused_or_read_as_something_plain(array, data):
    good = bytearray(pack({"a": array}))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    try:
        unpack(bytes(good))
    except CodecError:
        return


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array(["a"]), np.array([1j]), 2**70, (1,)])
def test_what_has_no_byte_form_is_refused(value):
    with pytest.raises(CodecError, match="no byte form"):
        pack(value)


@given(st.binary(max_size=30))
def test_noise_raises_nothing_but_its_own_error(noise):
    try:
        unpack(noise)
    except CodecError:
        return


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_what_is_cut_short_is_refused(cut):
    with pytest.raises(CodecError, match="cut short"):
        unpack(pack({"a": np.arange(5.0)})[:-cut])
