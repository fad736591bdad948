"""Keyed noise: the right distribution, one number for one reading, and no two readings share it."""

import hashlib

import numpy as np
import pytest
from scipy import stats

from flfl.errors import InputError
from flfl.protocol.noise import NoiseKey

KEY = NoiseKey(bytes(range(32)))
INSTANTS = 1_700_000_000 + 3600 * np.arange(50_000)
READINGS = np.round(20 + 5 * np.sin(INSTANTS / 7e4), 1)


def normals(secret=bytes(range(32)), sensor="a", transform="sqrt", sigma=0.5, shift=0, factor=1.0):
    n = slice(0, 1000)
    context = (transform, sigma)
    return NoiseKey(secret).normals(sensor, context, INSTANTS[n] + shift, READINGS[n] * factor)


def test_known_answers_stay():
    noise = KEY.normals("station-1", ("sqrt", 0.25), INSTANTS[:100], READINGS[:100])
    digest = hashlib.sha256(np.round(noise, 9).astype("<f8").tobytes()).hexdigest()
    assert digest[:16] == "471ce2178402f4f4"
    tags = KEY.tags(INSTANTS[:100], READINGS[:100])
    assert hashlib.sha256(tags.astype("<u8").tobytes()).hexdigest()[:16] == "c883d4861c2deae0"


def test_noise_is_standard_normal_and_white():
    x = KEY.normals("a", ("none", 1.0), INSTANTS, READINGS)
    assert abs(x.mean()) < 0.015
    assert abs(x.var() - 1) < 0.02
    assert stats.kstest(x, "norm").pvalue > 0.001
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 0.015


@pytest.mark.parametrize("scale", [0.96, 1.04])
def test_the_distribution_test_rejects_a_wrong_scale(scale):
    x = scale * KEY.normals("a", ("none", 1.0), INSTANTS, READINGS)
    assert stats.kstest(x, "norm").pvalue < 0.001


@pytest.mark.parametrize(
    "change",
    [
        {"secret": bytes(32)},
        {"sensor": "b"},
        {"transform": "none"},
        {"sigma": np.nextafter(0.5, 1)},
        {"shift": 1},
        {"factor": 1 + 2**-52},
    ],
)
def test_whatever_defines_the_copy_changes_all_of_its_noise(change):
    before, after = normals(), normals(**change)
    assert not np.isin(before, after).any()
    assert abs(np.corrcoef(before, after)[0, 1]) < 0.1


def test_parts_of_the_key_do_not_run_into_each_other():
    contexts = [("ab", ("c",)), ("a", ("bc",)), ("a", ("b", "c")), ("abc", ()), ("a", (0.0, "b"))]
    drawn = {float(KEY.normals(s, c, INSTANTS[:1], READINGS[:1])[0]) for s, c in contexts}
    assert len(drawn) == len(contexts)


def test_a_reading_has_one_noise_in_whatever_batch_it_comes():
    whole = KEY.normals("a", ("none", 1.0), INSTANTS, READINGS)
    some = np.random.default_rng(0).permutation(len(INSTANTS))[:500]
    np.testing.assert_array_equal(
        KEY.normals("a", ("none", 1.0), INSTANTS[some], READINGS[some]), whole[some]
    )
    zero = KEY.normals("a", ("none", 1.0), INSTANTS[:1], np.zeros(1))
    np.testing.assert_array_equal(
        KEY.normals("a", ("none", 1.0), INSTANTS[:1], np.array([-0.0])), zero
    )
    assert len(KEY.normals("a", (), INSTANTS[:0], READINGS[:0])) == 0


def test_tags_are_of_instant_and_reading_alone():
    tags = KEY.tags(INSTANTS, READINGS)
    assert len(np.unique(tags)) == len(tags)
    assert (tags > 0).all()
    assert not np.isin(tags, KEY.tags(INSTANTS, READINGS + 0.1)).any()
    assert not np.isin(tags, NoiseKey(bytes(32)).tags(INSTANTS, READINGS)).any()


def test_the_secret_is_long_enough_and_never_shown():
    with pytest.raises(InputError):
        NoiseKey(b"short")
    assert repr(KEY) == "NoiseKey(...)"
