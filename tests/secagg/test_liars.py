"""A coordinator that lies, sites that lie, and what they get: a refusal, and no site's numbers."""

from dataclasses import replace

import numpy as np
import pytest

from flfl.secagg import BelowThresholdError, Identity, Roster, SecureSite, SecureSumError, shamir
from flfl.secagg.masks import add_streams
from flfl.secagg.views import (
    Network,
    opened,
    pair_mask_seed,
    self_mask_seed,
    view_of,
)
from flfl.secagg.wire import (
    Frame,
    decode_to_site,
    encode_to_site,
    hash_question,
    peek,
)
from secure_parties import Party, draw_values

N, T = 9, 7
VICTIM = "site000"


class Liar(Party):
    """A party whose messages to the sites can be forged; it keeps what the sites gave away."""

    def __init__(self):
        super().__init__(N)
        self.start()
        draw_values(self, (50,), 4)

    def forged(self, data, **changes):
        """A coordinator's message with other sections, properly sealed."""
        frame, hashed = decode_to_site(data)
        sections = {name: bytes(part) for name, part in frame.sections.items()} | changes
        if "question" in changes:
            hashed = hash_question(changes["question"])
        return encode_to_site(replace(frame, sections=sections), hashed)

    def message(self, kind, name, number=1, **sections):
        return encode_to_site(Frame(kind, "run", number, name, sections))

    def uploaded(self, question=b"question"):
        """Everyone has uploaded; the coordinator has said nothing since."""
        self.prepared = self.sums._prepared
        self.asked = dict(self.sums.ask(question))
        for name, data in self.asked.items():
            self.answer(name, data)
        return self

    def agree(self, name, survivors):
        answer = self.answer(
            name, self.message("agree", name, survivors=self.roster.pack(survivors))
        )
        return bytes(peek(answer).sections["consent"])

    def reveal(self, name, survivors, consents=None):
        signed = b""
        if consents is not None:
            signed = self.roster.pack(consents) + b"".join(consents[s] for s in sorted(consents))
        body = {"survivors": self.roster.pack(survivors), "consents": signed}
        return self.answer(name, self.message("reveal", name, **body))

    def numbers(self, name):
        return np.frombuffer(peek(self.uploads[name]).sections["numbers"], "<u8").copy()

    def view(self):
        frame, hashed = decode_to_site(self.asked[VICTIM])
        members = bytes(frame.sections["present"])
        return view_of(self.roster, self.sums._network, "run", 1, members, hashed)

    def unmasked(self, secret=None, vault_key=None):
        """The victim's upload with those masks taken off of which the secrets are given."""
        words, view = self.numbers(VICTIM), self.view()
        if secret is not None:
            add_streams(words, [(self_mask_seed(secret, view), -1)])
        if vault_key is not None:
            mine = self.sums._network.neighbours[VICTIM]
            vault = self.prepared[VICTIM].vault
            text = opened(vault_key, vault, "closed", "run", 1, VICTIM, "vault")
            seeds = [text[i : i + 32] for i in range(0, len(text), 32)]
            add_streams(
                words,
                [
                    (pair_mask_seed(seed, view), -1 if other > VICTIM else 1)
                    for other, seed in zip(mine, seeds, strict=True)
                ],
            )
        return words.view(np.int64)

    def all_shares(self):
        """Both kinds of share of the victim, from the sites' own memories: no message has them."""
        held = {n: s._uploaded.asked.held[VICTIM] for n, s in self.sites.items()}
        points = {n: self.roster.position[n] + 1 for n in held}
        return tuple({points[n]: shares[kind] for n, shares in held.items()} for kind in (0, 1))

    def hidden(self, **secrets):
        """Whether nothing of the victim's numbers is left in sight."""
        return bool((self.unmasked(**secrets) != self.values[VICTIM]).all())


@pytest.fixture
def liar():
    return Liar()


def everyone_but(*names):
    return [f"site{i:03d}" for i in range(N) if f"site{i:03d}" not in names]


def shares_in(answer, n_survivors):
    parts = peek(answer).sections
    assert len(parts["selves"]) == n_survivors * shamir.SHARE_BYTES
    return len(parts["vaults"]) // shamir.SHARE_BYTES


# --- positive control: the masks are all there is ---------------------------------------------


def test_control_with_both_kinds_of_share_the_numbers_are_read(liar):
    liar.uploaded()
    selves, vaults = liar.all_shares()
    secret, key = shamir.join(selves, T), shamir.join(vaults, T)
    np.testing.assert_array_equal(liar.unmasked(secret, key), liar.values[VICTIM])
    assert liar.hidden()
    assert liar.hidden(secret=secret)
    assert liar.hidden(vault_key=key)


def test_one_share_short_of_the_threshold_the_secrets_stay_closed(liar):
    liar.uploaded()
    selves, vaults = liar.all_shares()
    true = shamir.join(selves, T)
    short = {x: selves[x] for x in sorted(selves)[: T - 1]}
    with pytest.raises(SecureSumError):
        shamir.join(short, T)
    try:
        guess = shamir.join(short, T - 1)
    except SecureSumError:
        guess = bytes(32)
    assert guess != true
    assert liar.hidden(secret=guess, vault_key=shamir.join(vaults, T))


# --- a coordinator that lies about who is left -------------------------------------------------


def test_both_kinds_of_share_of_one_site_are_refused(liar):
    liar.uploaded()
    without = everyone_but(VICTIM)
    helper = "site001"
    answer = liar.reveal(helper, everyone_but())
    assert shares_in(answer, N) == 0
    for attempt in (
        lambda: liar.agree(helper, without),
        lambda: liar.reveal(helper, without),
        lambda: liar.reveal(helper, everyone_but()),
    ):
        with pytest.raises(SecureSumError, match="not there to be opened"):
            attempt()


def test_a_list_with_drops_is_opened_only_after_enough_sites_agreed_on_it(liar):
    liar.uploaded()
    without = everyone_but(VICTIM)
    with pytest.raises(SecureSumError, match="did not agree on this list"):
        liar.reveal("site001", without)
    consents = {name: liar.agree(name, without) for name in without[: T - 1]}
    with pytest.raises(BelowThresholdError, match="6 sites, but 7 are needed"):
        liar.reveal("site001", without, consents)
    # Nobody's name can stand for somebody else, nor one consent for another list.
    with pytest.raises(SecureSumError, match="not that of 'site007'"):
        liar.reveal("site001", without, consents | {"site007": consents["site001"]})
    other = liar.agree("site007", everyone_but("site003"))
    with pytest.raises(SecureSumError, match="not that of 'site007'"):
        liar.reveal("site001", without, consents | {"site007": other})
    with pytest.raises(SecureSumError, match="did not agree"):
        liar.reveal("site001", everyone_but(), None)


def test_a_site_agrees_on_one_list_a_sum(liar):
    liar.uploaded()
    liar.agree("site001", everyone_but(VICTIM))
    with pytest.raises(SecureSumError, match="has agreed on a list"):
        liar.agree("site001", everyone_but("site002"))


def test_different_lists_for_different_sites_open_nothing_of_the_victim(liar):
    """The most it can do: as many sites as allowed hear that the victim dropped, the others that
    nobody did. Only one kind of share reaches the threshold, and the numbers stay hidden."""
    liar.uploaded()
    without = everyone_but(VICTIM)
    told_full, told_less = without[:1], without[1:]
    assert len(told_less) == T
    for name in told_full:
        assert shares_in(liar.reveal(name, everyone_but()), N) == 0
    consents = {name: liar.agree(name, without) for name in told_less}
    got = [liar.reveal(name, without, consents) for name in told_less]
    vaults = {
        liar.roster.position[name] + 1: bytes(peek(answer).sections["vaults"])
        for name, answer in zip(told_less, got, strict=True)
    }
    key = shamir.join(vaults, T)
    assert liar.hidden(vault_key=key), "the self-mask is still on"
    # One more site for the other story, and neither list has enough sites behind it.
    again = Liar().uploaded()
    few = {name: again.agree(name, without) for name in without[2:]}
    for name in without[2:]:
        with pytest.raises(BelowThresholdError):
            again.reveal(name, without, few)


@pytest.mark.parametrize("kind", ["agree", "reveal"])
def test_a_list_below_the_threshold_is_refused(liar, kind):
    liar.uploaded()
    few = everyone_but(VICTIM, "site007", "site008")
    assert len(few) == T - 1
    with pytest.raises(BelowThresholdError, match="6 sites, but 7 are needed"):
        getattr(liar, kind)("site001", few)


def test_a_list_without_the_site_itself_is_refused(liar):
    liar.uploaded()
    for kind in ("agree", "reveal"):
        with pytest.raises(SecureSumError, match="is not on the list"):
            getattr(liar, kind)(VICTIM, everyone_but(VICTIM))


def test_a_question_to_too_few_sites_is_refused(liar):
    asked = dict(liar.sums.ask(b"question"))
    few = everyone_but("site006", "site007", "site008")
    data = liar.forged(
        asked[VICTIM],
        present=liar.roster.pack(few),
        boxes=bytes(peek(asked[VICTIM]).sections["boxes"])[: 82 * (len(few) - 1)],
    )
    with pytest.raises(BelowThresholdError):
        liar.answer(VICTIM, data)


def test_a_dropped_site_stays_out(liar):
    liar.carry(liar.sums.ask(b"q"), lost=lambda name, kind, when: name == VICTIM and kind == "ask")
    liar.sums.take()
    helper = "site001"
    data = dict(liar.sums.ask(b"q"))[helper]
    back = liar.forged(data, present=liar.roster.pack(everyone_but()))
    with pytest.raises(SecureSumError, match="dropped or never was"):
        liar.answer(helper, back)


# --- a coordinator that lies about the question -----------------------------------------------


def test_sites_that_were_asked_different_things_do_not_add_up(liar):
    """Masks are bound to the question: what one site answers alone cannot be told apart."""
    asked = dict(liar.sums.ask(b"question"))
    asked[VICTIM] = liar.forged(asked[VICTIM], question=b"another question")
    with pytest.raises(SecureSumError, match="answers something else"):
        liar.carry(asked.items())
    for name, data in asked.items():
        if name not in liar.uploads:
            liar.answer(name, data)
    # A coordinator that does not mind opens everything and finds noise.
    selves = [s._uploaded.asked.held for s in liar.sites.values()]
    total = sum(liar.numbers(name) for name in liar.sites)
    for name, site in liar.sites.items():
        shares = {
            liar.roster.position[holder] + 1: held[name][0]
            for holder, held in zip(liar.sites, selves, strict=True)
        }
        seed = self_mask_seed(shamir.join(shares, T), site._uploaded.asked.view)
        add_streams(total, [(seed, -1)])
    assert (total.view(np.int64) != liar.plain(liar.sites)).all()


def test_sites_that_were_told_of_different_members_do_not_add_up(liar):
    asked = dict(liar.sums.ask(b"question"))
    boxes = bytes(peek(asked[VICTIM]).sections["boxes"])
    asked[VICTIM] = liar.forged(
        asked[VICTIM], present=liar.roster.pack(everyone_but("site008")), boxes=boxes[:-82]
    )
    with pytest.raises(SecureSumError, match="answers something else"):
        liar.sums.receive(liar.answer(VICTIM, asked[VICTIM]))


def test_a_second_question_for_the_same_sum_is_refused(liar):
    asked = dict(liar.sums.ask(b"question"))
    liar.answer(VICTIM, asked[VICTIM])
    with pytest.raises(SecureSumError, match="sum 1 is not expected"):
        liar.answer(VICTIM, liar.forged(asked[VICTIM], question=b"another"))


# --- a coordinator that lies about who is who --------------------------------------------------


def bundle_of(party):
    """The messages that hand out everyone's run keys."""
    outbox = list(party.sums.start())
    while True:
        name, data = outbox.pop(0)
        more = party.sums.receive(party.answer(name, data))
        if more:
            return dict(more)


def forged_bundle(data, **changes):
    frame, _ = decode_to_site(data)
    sections = {name: bytes(part) for name, part in frame.sections.items()} | changes
    return encode_to_site(replace(frame, sections=sections))


def test_a_swapped_key_is_refused():
    party = Party(4)
    bundle = bundle_of(party)
    data = bundle[VICTIM]
    keys = bytes(peek(data).sections["keys"])
    for start in (128, 160):  # site001's key for masks, then its key for shares
        changed = keys[:start] + bytes(32 * [9]) + keys[start + 32 :]
        with pytest.raises(SecureSumError, match="not that of 'site001'"):
            party.answer(VICTIM, forged_bundle(data, keys=changed))
    swapped = keys[:128] + keys[256:384] + keys[128:256] + keys[384:]
    with pytest.raises(SecureSumError, match="not that of 'site001'"):
        party.answer(VICTIM, forged_bundle(data, keys=swapped))
    mine = keys[128:256] + keys[128:]
    with pytest.raises(SecureSumError, match="own run keys were left out or changed"):
        party.answer(VICTIM, forged_bundle(data, keys=mine))
    party.answer(VICTIM, data)  # what was refused changed nothing


def test_keys_of_an_earlier_run_are_refused():
    party = Party(4, run="monday")
    old = bytes(peek(bundle_of(party)[VICTIM]).sections["keys"])
    later = Party(4, run="tuesday", identities=party.identities)
    data = bundle_of(later)[VICTIM]
    keys = bytes(peek(data).sections["keys"])
    with pytest.raises(SecureSumError, match="not that of 'site001'"):
        later.answer(VICTIM, forged_bundle(data, keys=keys[:128] + old[128:]))


def test_an_invented_site_is_refused():
    """A coordinator with a site of its own in its list cannot talk to the others."""
    party = Party(4)
    mole = Identity.generate()
    padded = Roster({**party.roster.keys, "site999": mole.public})
    data = bundle_of(party)[VICTIM]
    keys = bytes(peek(data).sections["keys"])
    with pytest.raises(SecureSumError, match="does not fit the roster"):
        party.answer(
            VICTIM, forged_bundle(data, present=padded.pack(padded.names), keys=keys + bytes(128))
        )
    stranger = SecureSite("site999", mole, padded)
    hello = encode_to_site(Frame("hello", "run", 0, "site999"))
    with pytest.raises(SecureSumError, match="not in the roster"):
        party.sums.receive(stranger.receive(hello))


def test_a_bundle_of_too_few_is_refused():
    party = Party(6)
    data = bundle_of(party)[VICTIM]
    keys = bytes(peek(data).sections["keys"])
    few = party.roster.pack(party.roster.names[:4])
    with pytest.raises(BelowThresholdError):
        party.answer(VICTIM, forged_bundle(data, present=few, keys=keys[: 4 * 128]))


# --- replays -----------------------------------------------------------------------------------


def test_messages_of_an_old_sum_are_refused(liar):
    first = dict(liar.sums.ask(b"one"))
    heard = {name: liar.answer(name, data) for name, data in first.items()}
    envelopes = [e for answer in heard.values() for e in liar.sums.receive(answer)]
    reveals = dict(envelopes)
    liar.carry(envelopes)
    liar.sums.take()
    second = dict(liar.sums.ask(b"two"))
    for old in (first[VICTIM], reveals[VICTIM]):
        with pytest.raises(SecureSumError, match=r"not expected|not there"):
            liar.answer(VICTIM, old)
    with pytest.raises(SecureSumError, match="not awaited"):
        liar.sums.receive(heard[VICTIM])
    # Old shares in a new envelope.
    boxes = bytes(peek(first[VICTIM]).sections["boxes"])
    with pytest.raises(SecureSumError, match="belong to another sum"):
        liar.answer(VICTIM, liar.forged(second[VICTIM], boxes=boxes))
    # Shares that were meant for somebody else.
    boxes = bytes(peek(second["site001"]).sections["boxes"])
    with pytest.raises(SecureSumError, match="belong to another sum"):
        liar.answer(VICTIM, liar.forged(second[VICTIM], boxes=boxes))
    liar.carry(second.items())
    np.testing.assert_array_equal(liar.sums.take().total, liar.plain(liar.sites))


def test_a_sum_that_was_not_prepared_is_refused(liar):
    data = dict(liar.sums.ask(b"q"))[VICTIM]
    frame, hashed = decode_to_site(data)
    with pytest.raises(SecureSumError, match="sum 5 is not expected"):
        liar.answer(VICTIM, encode_to_site(replace(frame, number=5), hashed))


# --- sites that lie ----------------------------------------------------------------------------


class WrongShares(SecureSite):
    """Reveals shares that are not those it was given."""

    def _reveal(self, frame):
        held = dict(self._uploaded.asked.held)
        held[VICTIM] = tuple(bytes([share[0]]) + share[:0:-1] for share in held[VICTIM])
        self._uploaded.asked = replace(self._uploaded.asked, held=held)
        return super()._reveal(frame)


class WrongSeed(SecureSite):
    """Commits to, and puts in its vault, another seed than it shares with its neighbour."""

    def _prepare(self, number):
        pair = self._pairs["site001"]
        self._pairs["site001"] = type(pair)(self.name, "site001", bytes(32), pair._channel)
        return super()._prepare(number)


@pytest.mark.parametrize("drop", [False, True], ids=["nobody drops", "the victim drops"])
def test_wrong_shares_are_an_error_and_never_a_wrong_sum(drop):
    party = Party(5)
    party.sites["site003"] = WrongShares("site003", party.identities["site003"], party.roster)
    party.start()
    with pytest.raises(SecureSumError, match=VICTIM):
        party.sum(lost=lambda name, kind, when: drop and name == VICTIM and kind == "ask")
    assert party.sums.outcome is None
    assert not party.sums.ready


def test_a_pair_seed_that_two_sites_do_not_share_is_an_error_before_anything_is_asked():
    party = Party(4)
    party.sites["site003"] = WrongSeed("site003", party.identities["site003"], party.roster)
    party.start()
    with pytest.raises(SecureSumError, match="'site001' and 'site003' do not have the same"):
        party.sums.ask(b"question")


def test_every_party_computes_the_same_network():
    party = Party(5).start()
    mine = party.sums._network
    assert isinstance(mine, Network)
    assert all(site._network == mine for site in party.sites.values())
