"""Laws of the masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flfl.datasets.masks import PATTERNS, hide
from flfl.errors import InputError

fixed = settings(derandomize=True, deadline=None, max_examples=150)


@st.composite
def problems(draw):
    sensors, slots = draw(st.integers(1, 12)), draw(st.integers(1, 120))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    known = rng.random((sensors, slots)) < draw(st.sampled_from([0.0, 0.1, 0.6, 1.0]))
    regions = draw(st.one_of(st.none(), st.just(rng.integers(3, size=sensors))))
    return known, regions, draw(st.floats(0.01, 1.0)), draw(st.integers(1, 30)), rng


@fixed
@given(problems(), st.sampled_from(PATTERNS))
def test_laws(problem, pattern: str) -> None:
    known, regions, rate, length, rng = problem
    before = known.copy()
    length = min(length, known.shape[1])
    target = max(round(rate * known.sum()), min(1, known.sum()))
    longest = length if pattern == "block" else max(1, round(0.04 * known.shape[1]))
    try:
        kept = hide(known, rate, pattern, rng, block_length=length, regions=regions)
    except InputError:
        kept = None
    if kept is None:
        # Only where one run of every sensor, which stays, is more than may be kept.
        assert pattern != "random"
        assert target < len(known) * longest
        return
    np.testing.assert_array_equal(known, before)
    assert kept.shape == known.shape
    assert kept.dtype == np.bool_
    assert not (kept & ~known).any()
    widest = 1 if regions is None else np.bincount(regions).max()
    run = {"random": 0, "block": longest, "outage": longest * widest}
    assert abs(kept.sum() - target) <= run[pattern]
    if target >= known.any(axis=1).sum() and pattern != "outage":
        np.testing.assert_array_equal(kept.any(axis=1), known.any(axis=1))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_share_kept_and_every_sensor_keeps_some(pattern: str, rate: float) -> None:
    rng = np.random.default_rng(3)
    known = rng.random((30, 2000)) < 0.8
    kept = hide(known, rate, pattern, rng, regions=np.arange(30) % 4)
    assert kept.sum() / known.sum() == pytest.approx(rate, abs=0.012)
    assert kept.any(axis=1).all()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_same_seed_same_mask(pattern: str) -> None:
    known = np.ones((5, 100), dtype=bool)
    first, again, other = (hide(known, 0.5, pattern, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def run_lengths(hidden: np.ndarray) -> np.ndarray:
    edges = np.diff(np.concatenate([[0], hidden.astype(int), [0]]))
    return np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)


def test_blocks_come_in_runs() -> None:
    kept = hide(
        np.ones((20, 960), dtype=bool), 0.8, "block", np.random.default_rng(0), block_length=12
    )
    lengths = np.concatenate([run_lengths(~row[12:-12]) for row in kept])
    assert np.mean(lengths % 12 == 0) > 0.85


def test_outages_last_four_percent_and_hit_regions() -> None:
    known = np.ones((12, 1000), dtype=bool)
    regions = ["north"] * 4 + ["south"] * 8
    kept = hide(known, 0.9, "outage", np.random.default_rng(5), regions=regions)
    lengths = np.concatenate([run_lengths(~row) for row in kept])
    assert lengths.min() >= 40
    together = (~kept[:4]).all(axis=0).sum() + (~kept[4:]).all(axis=0).sum()
    assert together >= 40
    alone = hide(known, 0.9, "outage", np.random.default_rng(5))
    assert (~alone).all(axis=0).sum() == 0


def test_random_hides_evenly() -> None:
    kept = hide(np.ones((50, 400), dtype=bool), 0.3, "random", np.random.default_rng(0))
    assert kept.sum() == 6000
    share = kept.mean(axis=0)
    assert share.std() == pytest.approx(np.sqrt(0.3 * 0.7 / 50), rel=0.15)


def test_only_one_reading_to_keep() -> None:
    known = np.zeros((3, 50), dtype=bool)
    known[1, 7] = True
    for pattern in PATTERNS:
        kept = hide(known, 0.01, pattern, np.random.default_rng(0))
        np.testing.assert_array_equal(kept, known)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"known": np.ones((2, 3))}, "known: .*bool"),
        ({"known": np.ones(3, dtype=bool)}, "known: .*sensors x slots"),
        ({"rate": 0.0}, "rate: .*greater than 0"),
        ({"rate": 1.5}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"pattern": "stripes"}, "pattern: 'stripes'.*'random', 'block' or 'outage'"),
        ({"block_length": 0}, "block_length: .*greater than or equal to 1"),
        ({"pattern": "block", "block_length": 4}, "block_length: .* longer than the table of 3"),
        ({"regions": ["a"]}, "regions: 1 regions are given for 2 sensors"),
    ],
)
def test_bad_arguments(change, words: str) -> None:
    given_ = {"known": np.ones((2, 3), dtype=bool), "rate": 0.5, "pattern": "random"} | change
    with pytest.raises(InputError, match=words):
        hide(rng=np.random.default_rng(0), **given_)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_memory_layout_of_the_mask_does_not_matter(pattern):
    known = np.random.default_rng(0).random((7, 300)) < 0.8
    expected = hide(known, 0.6, pattern, np.random.default_rng(1), block_length=5)
    transposed = np.asfortranarray(known)
    np.testing.assert_array_equal(
        hide(transposed, 0.6, pattern, np.random.default_rng(1), block_length=5), expected
    )
    assert 0.5 < expected.sum() / known.sum() < 0.7


@pytest.mark.parametrize(("pattern", "remedy"), [("block", "block_length"), ("outage", "random")])
def test_a_pattern_that_cannot_be_had_is_refused_not_swapped(pattern: str, remedy: str) -> None:
    known = np.ones((20, 60), dtype=bool)
    with pytest.raises(InputError, match=f"pattern {pattern}: runs of .* can hide only .*{remedy}"):
        hide(known, 0.005, pattern, np.random.default_rng(0))
