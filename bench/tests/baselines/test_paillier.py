"""The small Paillier: sums of ciphertexts, negative numbers, one exponent, fresh zeros."""

import numpy as np
import pytest

from flfl.errors import OutOfRangeError
from flfl_bench.baselines.federation import Message
from flfl_bench.baselines.paillier import UNIT, KeyPair


@pytest.fixture(scope="module")
def keys():
    return KeyPair.generate(256)  # short: for tests only


def test_sums_of_ciphertexts_decrypt_to_sums_of_numbers(keys):
    rng = np.random.default_rng(0)
    terms = rng.normal(scale=10.0 ** rng.integers(-6, 6, (40, 3, 2)))
    total = keys.public.seal(terms[0])
    for term in terms[1:]:
        total = total + keys.public.seal(term)
    np.testing.assert_allclose(keys.private.open(total), terms.sum(axis=0), atol=40 * UNIT)


def test_the_same_number_never_looks_the_same(keys):
    zeros = keys.public.seal(np.zeros(50))
    assert len({item.value for item in zeros}) == 50
    np.testing.assert_array_equal(keys.private.open(zeros), 0.0)


def test_another_key_opens_nothing(keys):
    values = np.array([1.0, -2.0, 3.0])
    opened = KeyPair.generate(256).private.open(keys.public.seal(values))
    assert (np.abs(opened - values) > 1e3).all()


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30])
def test_what_does_not_fit_is_refused(keys, value):
    with pytest.raises(OutOfRangeError, match="too large"):
        keys.public.seal(np.array([0.0, value]))


def test_a_key_too_short_for_the_sums_is_refused():
    with pytest.raises(OutOfRangeError, match="64 bits"):
        KeyPair.generate(64)


def test_a_ciphertext_is_twice_as_long_as_the_key(keys):
    message = Message("move", {"rows": np.arange(5), "values": keys.public.seal(np.zeros(5))})
    assert keys.public.n.bit_length() == 256
    assert message.nbytes == 5 * 4 + 5 * 64
    assert message.numbers == 0


def test_secrets_are_not_printed(keys):
    shown = repr(keys) + repr(keys.public.seal(np.ones(1)))
    assert str(keys.private.p) not in shown
    assert str(keys.private.q) not in shown
