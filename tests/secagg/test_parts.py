"""The parts of the secure sum: one test for each guarantee in their docstrings."""

import contextlib
import hashlib
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from flfl.codec import pack, unwrap, wrap
from flfl.errors import InputError, OutOfRangeError
from flfl.secagg import Identity, Roster, SecureClient, SecureSumError, graph, masking, shamir, wire
from flfl.secagg.keys import agree, digest, draw, expand
from flfl.secagg.masking import opened, sealed


class TestShamir:
    @given(st.binary(min_size=32, max_size=32), st.integers(1, 12), st.integers(0, 12), st.data())
    def test_any_threshold_of_shares_give_the_secret(self, secret, threshold, more, data):
        points = list(range(1, threshold + more + 1))
        shares = dict(zip(points, shamir.split(secret, threshold, points), strict=True))
        chosen = data.draw(st.permutations(points))[:threshold]
        assert shamir.join({x: shares[x] for x in chosen}, threshold) == secret

    def test_one_share_fewer_fits_every_secret(self):
        """With t - 1 shares, any other secret has a t-th share that completes it."""
        secret, other, t = b"s" * 32, b"o" * 32, 5
        shares = dict(enumerate(shamir.split(secret, t, [1, 2, 3, 4, 5]), 1))
        known = {x: shares[x] for x in (1, 2, 3, 4)}
        weights = shamir.weights_at_zero((1, 2, 3, 4, 5))
        rest = sum(int.from_bytes(known[x]) * w for x, w in zip(known, weights, strict=False))
        last = (int.from_bytes(other) - rest) * pow(weights[4], -1, shamir.PRIME) % shamir.PRIME
        assert shamir.join({**known, 5: last.to_bytes(shamir.SHARE_BYTES)}, t) == other
        assert shamir.join(shares, t) == secret

    def test_too_few_shares_are_refused(self):
        shares = dict(enumerate(shamir.split(bytes(32), 4, [1, 2, 3, 4]), 1))
        del shares[2]
        with pytest.raises(SecureSumError, match="3 shares do not make a secret shared by 4"):
            shamir.join(shares, 4)

    def test_a_joined_lower_threshold_gives_something_else(self):
        secret = b"s" * 32
        shares = dict(enumerate(shamir.split(secret, 4, [1, 2, 3, 4]), 1))
        assert shamir.join(shares, 4) == secret
        # It hardly ever fits 32 bytes otherwise.
        with contextlib.suppress(SecureSumError):
            assert shamir.join(shares, 3) != secret

    def test_the_same_secret_is_never_shared_the_same_way(self):
        assert shamir.split(bytes(32), 3, [1, 2, 3]) != shamir.split(bytes(32), 3, [1, 2, 3])


class TestMasks:
    @pytest.mark.parametrize("size", [0, 1, 2, 8191, 8192, 8193, 20000])
    def test_the_stream_is_aes_in_counter_mode(self, size):
        """Against another implementation: the block cipher, one counter at a time."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        seed = hashlib.sha256(b"seed").digest()
        block = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()
        counters = b"".join(i.to_bytes(16, "big") for i in range((size + 1) // 2))
        wanted = np.frombuffer(block.update(counters), "<u8")[:size]
        total = np.zeros(size, np.uint64)
        masking.add_streams(total, [(seed, 1)])
        np.testing.assert_array_equal(total, wanted)

    def test_the_opposite_sign_takes_a_mask_off(self):
        values = np.arange(-5, 20000, dtype=np.int64)
        words = masking.to_ring(values, 3)
        masking.add_streams(words, [(b"a" * 32, 1), (b"b" * 32, -1)])
        assert (words.view(np.int64) != values).mean() > 0.999
        masking.add_streams(words, [(b"b" * 32, 1), (b"a" * 32, -1)])
        np.testing.assert_array_equal(masking.from_ring(words, 1, 3), values)

    def test_masked_zeros_look_uniform(self):
        words = np.zeros(4096, np.uint64)
        masking.add_streams(words, [(b"a" * 32, 1)])
        ones = np.unpackbits(words.view(np.uint8)).mean()
        assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(4096 * 64)

    @pytest.mark.parametrize("n_sites", [3, 36, 1000])
    def test_a_number_beyond_the_bound_is_refused_and_one_at_it_is_not(self, n_sites):
        limit = 2**62 // n_sites
        assert masking.to_ring(np.array([limit, -limit]), n_sites).size == 2
        for value in (limit + 1, -limit - 1, 2**63 - 1, -(2**63)):
            with pytest.raises(OutOfRangeError, match=f"{n_sites} sites is beyond"):
                masking.to_ring(np.array([0, value]), n_sites)

    def test_the_caller_keeps_its_numbers(self):
        values = np.arange(3)
        masking.to_ring(values, 3)[:] = 7
        assert values.tolist() == [0, 1, 2]

    def test_a_sum_that_no_honest_terms_give_is_refused(self):
        at_most = np.array([2 * (2**62 // 3)]).view(np.uint64)
        assert masking.from_ring(at_most, 2, 3).tolist() == [2 * (2**62 // 3)]
        with pytest.raises(OutOfRangeError, match="larger than its terms"):
            masking.from_ring(at_most + np.uint64(1), 2, 3)


class TestKeys:
    def test_expand_is_rfc_5869(self):
        key = b"k" * 32
        assert expand(key, b"info") == HKDFExpand(hashes.SHA256(), 32, b"info").derive(key)

    @given(st.lists(st.binary(max_size=3), max_size=4), st.lists(st.binary(max_size=3), max_size=4))
    def test_different_lists_never_hash_alike(self, one, other):
        assert (digest(*one) == digest(*other)) == (one == other)
        assert digest("a", 1) != digest("a", "1") != digest(b"a", "1")

    def test_randomness_of_a_secret_comes_again_for_the_same_use_only(self):
        uses = [("self", "run", 1), ("vault", "run", 1), ("self", "later", 1), ("self", "run", 2)]
        drawn = {draw(secret, 32, *use) for secret in (b"s" * 32, b"t" * 32) for use in uses}
        assert len(drawn) == 8
        assert draw(b"s" * 32, 32, *uses[0]) in drawn
        assert draw(None, 32, *uses[0]) != draw(None, 32, *uses[0])

    def pairs(self):
        """What a shares with b and with c, and what b shares with a."""
        private = {n: (X25519PrivateKey.generate(), X25519PrivateKey.generate()) for n in "abc"}
        public = {
            n: b"".join(key.public_key().public_bytes_raw() for key in keys)
            for n, keys in private.items()
        }
        return [
            agree(private[mine], public[theirs], b"roster", "run", *sorted((mine, theirs)))
            for mine, theirs in ("ab", "ac", "ba")
        ]

    def test_both_ends_have_the_same_keys_and_each_way_and_each_sum_its_own(self):
        one, other, two = self.pairs()
        seen = {other.masks, other.channel}
        for _ in range(3):
            assert one == two
            seen |= {one.masks, one.channel}
            one, two = one.step(), two.step()
        assert len(seen) == 8

    def test_a_key_of_low_order_is_refused(self):
        private = (X25519PrivateKey.generate(), X25519PrivateKey.generate())
        with pytest.raises(SecureSumError, match="no key"):
            agree(private, bytes(64), b"roster", "run", "a", "b")

    def test_a_box_opens_with_its_key_and_for_its_purpose_only(self):
        box = sealed(b"k" * 32, b"text", "run", 1, "a", "b")
        assert opened(b"k" * 32, box, "no", "run", 1, "a", "b") == b"text"
        wrong = [
            (b"l" * 32, box, ("run", 1, "a", "b")),
            (b"k" * 32, box, ("run", 2, "a", "b")),
            (b"k" * 32, box, ("run", 1, "b", "a")),
            (b"k" * 32, box, ("other", 1, "a", "b")),
            (b"k" * 32, box[:-1] + bytes([box[-1] ^ 1]), ("run", 1, "a", "b")),
        ]
        for key, data, about in wrong:
            with pytest.raises(SecureSumError, match=r"^changed$"):
                opened(key, data, "changed", *about)


class TestRoster:
    def keys(self, n):
        return {f"s{i}": Identity.generate().public for i in range(n)}

    @pytest.mark.parametrize(("n", "wanted"), [(3, 3), (4, 3), (5, 4), (6, 5), (9, 7), (36, 25)])
    def test_the_default_threshold_is_two_thirds_and_one(self, n, wanted):
        roster = Roster(self.keys(n))
        assert roster.threshold == wanted
        # Both kinds of share of one site would take 2t honest and lying answers from n + lying.
        lying = (n - 1) // 3
        assert 2 * roster.threshold > n + lying

    @pytest.mark.parametrize(
        ("n", "settings", "words"),
        [
            (2, {}, "2 sites, but a sum must cover 3"),
            (5, {"min_sites": 2}, "hides nothing"),
            (4, {"min_sites": 5}, "4 sites, but a sum must cover 5"),
            (8, {"threshold": 4}, "more than half"),
            (8, {"threshold": 9}, "threshold 9 of 8"),
            (9, {"threshold": 5, "min_sites": 6}, "at least 6"),
        ],
    )
    def test_what_would_not_hide_is_refused(self, n, settings, words):
        with pytest.raises(InputError, match=words):
            Roster(self.keys(n), **settings)

    def test_two_sites_with_one_key_are_refused(self):
        keys = self.keys(3)
        with pytest.raises(InputError, match="same key"):
            Roster({**keys, "twin": keys["s0"]})

    def test_the_digest_covers_everything_and_no_order(self):
        keys = self.keys(9)
        roster = Roster(keys)
        assert Roster(dict(reversed(keys.items()))).digest == roster.digest
        others = [
            Roster({**keys, "s0": Identity.generate().public}),
            Roster(keys, threshold=8),
            Roster(keys, min_sites=4),
            Roster({**{k: v for k, v in keys.items() if k != "s0"}, "t0": keys["s0"]}),
        ]
        assert len({roster.digest, *(other.digest for other in others)}) == 5

    @given(st.sets(st.integers(0, 10)))
    def test_lists_of_sites_come_back(self, chosen):
        roster = Roster({f"s{i:02d}": bytes([i]) * 32 for i in range(11)})
        names = tuple(f"s{i:02d}" for i in sorted(chosen))
        assert roster.unpack(roster.pack(names)) == names

    def test_bits_for_nobody_are_refused(self):
        roster = Roster(self.keys(5))
        for data in (b"\xff", b"", b"\x01\x00"):
            with pytest.raises(SecureSumError, match="does not fit"):
                roster.unpack(data)

    def test_a_site_checks_that_the_roster_holds_its_own_key(self):
        roster = Roster(self.keys(3))
        with pytest.raises(SecureSumError, match="does not hold this key"):
            SecureClient("s0", Identity.generate(), roster)

    def test_an_identity_is_not_pickled(self):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(Identity.generate())


class TestGraph:
    @pytest.mark.parametrize("n", [3, 36, 100])
    def test_complete_below_the_size_where_sparse_pays(self, n):
        assert graph.degree_for(n, 2 * n // 3 + 1) == (n - 1, 2 * n // 3 + 1)

    @pytest.mark.parametrize("n", [101, 200, 1000])
    def test_sparse_holds_its_probabilities(self, n):
        k, t = graph.degree_for(n, 2 * n // 3 + 1)
        assert k < n - 1
        corrupt, gone = int(np.ceil(graph.CORRUPT * n)), int(np.ceil(graph.DROPOUT * n))
        # Lying neighbours beyond t - k/2 - 2 would be dangerous; survivors below t stop the run.
        assert n * hypergeom.sf(t - k // 2 - 2, n - 1, corrupt, k) <= 2.0**-40
        assert n * hypergeom.sf(k - t, n - 1, gone, k) <= 2.0**-30
        smaller = k - 2
        bad = hypergeom.isf(2.0**-40 / n, n - 1, corrupt, smaller)
        lost = hypergeom.isf(2.0**-30 / n, n - 1, gone, smaller)
        assert smaller // 2 + 2 + bad > smaller - lost, "the degree is the least that does"

    @given(st.integers(3, 60), st.integers(1, 20), st.binary(max_size=4))
    def test_symmetric_regular_without_loops(self, n, half, seed):
        names = [f"s{i}" for i in range(n)]
        near = graph.neighbours(names, seed, 2 * half)
        for name in names:
            assert name not in near[name]
            assert len(near[name]) == min(2 * half, n - 1)
            assert all(name in near[other] for other in near[name])

    def test_the_order_comes_from_the_seed(self):
        names = [f"s{i}" for i in range(50)]
        assert graph.neighbours(names, b"a", 4) == graph.neighbours(names[::-1], b"a", 4)
        assert graph.neighbours(names, b"a", 4) != graph.neighbours(names, b"b", 4)

    def test_no_gap_that_splits_the_ring_leaves_its_edge_enough_holders(self):
        """A site at the edge of k/2 missing neighbours in a row has too few holders to be opened,
        even if c of the missing ones lie and answer."""
        degree, threshold = graph.degree_for(200, 134)
        bad = threshold - degree // 2 - 2
        assert degree // 2 + 1 + bad < threshold


class TestWire:
    def setup_method(self):
        self.ids = {name: Identity.generate() for name in "abc"}
        self.roster = Roster({name: i.public for name, i in self.ids.items()})

    def signed(self, site="a", by="a"):
        frame = wire.Frame("consent", "run", 3, site, {"view": b"v" * 32, "survivors": b"s"})
        return wire.encode(frame, self.ids[by], self.roster)

    def asked(self, **changes):
        sections = {"present": b"\x07", "boxes": [b"b" * 82], "question": b"q" * 100} | changes
        return wire.encode(wire.Frame("ask", "run", 3, "a", sections))

    def test_there_and_back(self):
        frame = wire.decode(self.signed(), self.roster)
        assert (frame.kind, frame.run, frame.number, frame.site) == ("consent", "run", 3, "a")
        data = self.asked()
        assert wire.decode(data).sections["question"] == b"q" * 100

    def test_every_flipped_bit_every_cut_and_every_extension_is_refused(self):
        for data, roster in ((self.signed(), self.roster), (self.asked(), None)):
            for position in range(len(data)):
                for changed in (
                    data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :],
                    data[:position],
                ):
                    with pytest.raises(SecureSumError):
                        wire.decode(changed, roster)
            with pytest.raises(SecureSumError):
                wire.decode(data + b"\x00", roster)

    def test_a_site_s_message_with_a_right_check_and_a_change_is_refused(self):
        signature, body = unwrap(wire.FORM, wire.VERSION, self.signed())
        for position in range(len(body)):
            changed = body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]
            with pytest.raises(SecureSumError):
                wire.decode(wrap(wire.FORM, wire.VERSION, [signature, changed]), self.roster)

    def test_a_foreign_signature_and_a_foreign_roster_are_refused(self):
        with pytest.raises(SecureSumError, match="not that of 'a'"):
            wire.decode(self.signed(by="b"), self.roster)
        with pytest.raises(SecureSumError, match="not in the roster"):
            wire.decode(self.signed(site="z"), self.roster)
        other = Roster({n: i.public for n, i in self.ids.items()} | {"d": bytes(31) + b"1"})
        with pytest.raises(SecureSumError, match="not that of 'a'"):
            wire.decode(self.signed(), other)
        with pytest.raises(SecureSumError, match="not that of 'a'"):
            wire.decode(self.asked(), self.roster)

    @pytest.mark.parametrize(
        "fields",
        [
            ["hello", "run", 0, "a", ""],
            ["hello", "run", 0, "a", "", {}, 1],
            ["hello", "run", "0", "a", "", {}],
            ["hello", "run", True, "a", "", {}],
            ["hello", b"run", 0, "a", "", {}],
            ["hello", "run", 0, ["a"], "", {}],
            ["hello", "run", 0, "a", "", {"more": b""}],
            ["hello", "run", 0, "a", "", []],
            ["other", "run", 0, "a", "", {}],
            ["agree", "run", 0, "a", "", {}],
            ["agree", "run", 0, "a", "", {"survivors": "s"}],
            ["bundle", "run", 0, "a", "", {"keys": b"k"}],
            ["bundle", "run", 0, "a", "", {"keys": [b"k", 1]}],
            ["ask", "run", 0, "a", "", {"present": b"", "boxes": [b"b" * 81], "question": b""}],
            ["ask", "run", 0, "a", "", {"question": b"", "boxes": [], "present": b""}],
            None,
            7,
        ],
    )
    def test_a_message_of_another_form_is_refused(self, fields):
        with pytest.raises(SecureSumError):
            wire.decode(wrap(wire.FORM, wire.VERSION, [b"", pack(fields)]))

    def test_another_version_is_refused(self):
        with pytest.raises(SecureSumError, match="version 9"):
            wire.decode(wrap(wire.FORM, 9, [b"", b""]))

    @given(st.binary(max_size=120))
    def test_noise_is_refused_and_never_crashes(self, noise):
        self.setup_method()
        whole = wrap(wire.FORM, wire.VERSION, [b"", noise])
        for data in (noise, b"FLSS" + noise, self.signed()[:10] + noise, whole):
            for roster in (self.roster, None):
                with pytest.raises(SecureSumError):
                    wire.decode(data, roster)
