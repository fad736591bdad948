"""A coordinator that lies, sites that lie, and what they get: a refusal, and no site's numbers."""

from dataclasses import replace

import numpy as np
import pytest

from flfl.secagg import BelowThresholdError, Identity, Roster, SecureClient, SecureSumError, shamir
from flfl.secagg.graph import Network
from flfl.secagg.keys import Pair, expand
from flfl.secagg.masking import add_streams, opened
from flfl.secagg.wire import Frame, decode, encode
from secure_parties import Party, draw_values

N, T = 9, 7
VICTIM = "site000"


class Liar(Party):
    """A party whose messages to the sites can be forged; it keeps what the sites gave away."""

    def __init__(self):
        super().__init__(N)
        self.start()
        draw_values(self, (50,), 4)

    def message(self, kind, name, number=1, **sections):
        return encode(Frame(kind, "run", number, name, sections))

    def uploaded(self, question=b"question"):
        """Everyone has uploaded; the coordinator has said nothing since."""
        self.prepared = self.sums._prepared
        self.asked = dict(self.sums.ask(question))
        for name, data in self.asked.items():
            self.answer(name, data)
        return self

    def agree(self, name, survivors):
        """The site's signed consent."""
        packed = self.roster.pack(survivors)
        return self.answer(name, self.message("agree", name, survivors=packed))

    def reveal(self, name, survivors, consents=()):
        body = {"survivors": self.roster.pack(survivors), "consents": list(consents)}
        return self.answer(name, self.message("reveal", name, **body))

    def numbers(self, name):
        return decode(self.uploads[name]).sections["arrays"][0].copy()

    def held(self, name):
        """The shares that a site holds of the others' secrets."""
        return self.sites[name]._state.asked.held

    def view(self):
        parts = decode(self.asked[VICTIM]).sections
        return self.sums._network.view(1, parts["present"], parts["question"])

    def unmasked(self, secret=None, vault_key=None):
        """The victim's upload with those masks taken off of which the secrets are given."""
        words, view = self.numbers(VICTIM), self.view()
        if secret is not None:
            add_streams(words, [(expand(secret, b"self mask" + view), -1)])
        if vault_key is not None:
            mine = self.sums._network.neighbours[VICTIM]
            vault = self.prepared[VICTIM].vault
            text = opened(vault_key, vault, "closed", "run", 1, VICTIM, "vault")
            seeds = [text[i : i + 32] for i in range(0, len(text), 32)]
            add_streams(
                words,
                [
                    (expand(seed, b"pair mask" + view), -1 if other > VICTIM else 1)
                    for other, seed in zip(mine, seeds, strict=True)
                ],
            )
        return words.view(np.int64)

    def all_shares(self):
        """Both kinds of share of the victim, from the sites' own memories: no message has them."""
        held = {n: self.held(n)[VICTIM] for n in self.sites}
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
    parts = decode(answer).sections
    assert len(parts["selves"]) == n_survivors
    return len(parts["vaults"])


def forged(data, **changes):
    """A coordinator's message with other sections."""
    frame = decode(data)
    return encode(replace(frame, sections={**frame.sections, **changes}))


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
        with pytest.raises(SecureSumError, match="of sum 1 is not expected"):
            attempt()


def test_a_list_with_drops_is_opened_only_after_enough_sites_agreed_on_it(liar):
    liar.uploaded()
    without = everyone_but(VICTIM)
    with pytest.raises(SecureSumError, match="did not agree on this list"):
        liar.reveal("site001", without)
    consents = [liar.agree(name, without) for name in without[: T - 1]]
    # No consent counts twice, nobody's name can stand for somebody else, nor one consent for
    # another list or sum, nor another message for a consent.
    for more in ([], consents[:1], consents[:3]):
        with pytest.raises(BelowThresholdError, match="6 of 9 sites are left and 7 are needed"):
            liar.reveal("site001", without, [*consents, *more])
    forger = liar.identities["site001"]
    stolen = encode(replace(decode(consents[0]), site="site007"), forger, liar.roster)
    with pytest.raises(SecureSumError, match="not that of 'site007'"):
        liar.reveal("site001", without, [*consents, stolen])
    other = liar.agree("site007", everyone_but("site003"))
    frame = decode(consents[1])
    about = encode(
        replace(frame, sections={**frame.sections, "view": bytes(32)}), forger, liar.roster
    )
    for wrong in (other, liar.uploads["site007"]):
        with pytest.raises(SecureSumError, match="'site007' agreed on something else"):
            liar.reveal("site001", without, [*consents, wrong])
    with pytest.raises(SecureSumError):
        liar.reveal("site001", without, [*consents, about])
    with pytest.raises(SecureSumError, match="did not agree"):
        liar.reveal("site001", everyone_but())


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
    consents = [liar.agree(name, without) for name in told_less]
    got = [liar.reveal(name, without, consents) for name in told_less]
    vaults = {
        liar.roster.position[name] + 1: decode(answer).sections["vaults"][0]
        for name, answer in zip(told_less, got, strict=True)
    }
    key = shamir.join(vaults, T)
    assert liar.hidden(vault_key=key), "the self-mask is still on"
    # One more site for the other story, and neither list has enough sites behind it.
    again = Liar().uploaded()
    few = [again.agree(name, without) for name in without[2:]]
    for name in without[2:]:
        with pytest.raises(BelowThresholdError):
            again.reveal(name, without, few)


@pytest.mark.parametrize("ask", [Liar.agree, Liar.reveal])
def test_a_list_below_the_threshold_or_without_the_site_itself_is_refused(liar, ask):
    liar.uploaded()
    few = everyone_but(VICTIM, "site007", "site008")
    assert len(few) == T - 1
    with pytest.raises(BelowThresholdError, match="6 of 9 sites are left and 7 are needed"):
        ask(liar, "site001", few)
    with pytest.raises(SecureSumError, match="is not on the list"):
        ask(liar, VICTIM, everyone_but(VICTIM))


def test_a_question_to_too_few_sites_is_refused(liar):
    asked = dict(liar.sums.ask(b"question"))
    few = everyone_but("site006", "site007", "site008")
    boxes = decode(asked[VICTIM]).sections["boxes"][: len(few) - 1]
    data = forged(asked[VICTIM], present=liar.roster.pack(few), boxes=boxes)
    with pytest.raises(BelowThresholdError):
        liar.answer(VICTIM, data)


def test_a_dropped_site_stays_out(liar):
    liar.carry(liar.sums.ask(b"q"), lost=lambda name, kind, when: name == VICTIM and kind == "ask")
    helper = "site001"
    data = dict(liar.sums.ask(b"q"))[helper]
    back = forged(data, present=liar.roster.pack(everyone_but()))
    with pytest.raises(SecureSumError, match="dropped or never was"):
        liar.answer(helper, back)


# --- a coordinator that lies about the question -----------------------------------------------


def test_sites_that_were_asked_different_things_do_not_add_up(liar):
    """Masks are bound to the question: what one site answers alone cannot be told apart."""
    asked = dict(liar.sums.ask(b"question"))
    asked[VICTIM] = forged(asked[VICTIM], question=b"another question")
    with pytest.raises(SecureSumError, match="answers something else"):
        liar.carry(asked.items())
    for name, data in asked.items():
        if name not in liar.uploads:
            liar.answer(name, data)
    # A coordinator that does not mind opens everything and finds noise.
    total = sum(liar.numbers(name) for name in liar.sites)
    for name, site in liar.sites.items():
        shares = {liar.roster.position[n] + 1: liar.held(n)[name][0] for n in liar.sites}
        secret, view = shamir.join(shares, T), site._state.asked.view
        add_streams(total, [(expand(secret, b"self mask" + view), -1)])
    assert (total.view(np.int64) != liar.plain(liar.sites)).all()


def test_sites_that_were_told_of_different_members_do_not_add_up(liar):
    asked = dict(liar.sums.ask(b"question"))
    boxes = decode(asked[VICTIM]).sections["boxes"][:-1]
    less = liar.roster.pack(everyone_but("site008"))
    with pytest.raises(SecureSumError, match="8 shares from 7 neighbours"):
        liar.answer(VICTIM, forged(asked[VICTIM], present=less))
    asked[VICTIM] = forged(asked[VICTIM], present=less, boxes=boxes)
    with pytest.raises(SecureSumError, match="answers something else"):
        liar.sums.receive(liar.answer(VICTIM, asked[VICTIM]))


def test_a_second_question_for_the_same_sum_is_refused(liar):
    asked = dict(liar.sums.ask(b"question"))
    liar.answer(VICTIM, asked[VICTIM])
    with pytest.raises(SecureSumError, match="of sum 1 is not expected"):
        liar.answer(VICTIM, forged(asked[VICTIM], question=b"another"))


# --- a coordinator that lies about who is who --------------------------------------------------


def bundle_of(party):
    """The messages that hand out everyone's run keys."""
    outbox = list(party.sums.start())
    while True:
        name, data = outbox.pop(0)
        more = party.sums.receive(party.answer(name, data))
        if more:
            return dict(more)


def test_a_swapped_key_is_refused():
    party = Party(4)
    data = bundle_of(party)[VICTIM]
    keys = decode(data).sections["keys"]
    own = decode(keys[1])
    for at in (0, 32):  # site001's key for masks, then its key for shares
        public = own.sections["keys"]
        changed = replace(own, sections={"keys": public[:at] + bytes(32) + public[at + 32 :]})
        message = encode(changed, party.identities["site002"], party.roster)
        with pytest.raises(SecureSumError, match="not that of 'site001'"):
            party.answer(VICTIM, forged(data, keys=[keys[0], message, *keys[2:]]))
    with pytest.raises(SecureSumError, match="'site001' did not send this as its run keys"):
        party.answer(VICTIM, forged(data, keys=[*keys, keys[1]]))
    with pytest.raises(SecureSumError, match="own run keys were left out or changed"):
        party.answer(VICTIM, forged(data, keys=keys[1:]))
    party.answer(VICTIM, data)  # what was refused changed nothing


def test_keys_of_an_earlier_run_and_other_messages_are_refused():
    party = Party(4, run="monday")
    old = decode(bundle_of(party)[VICTIM]).sections["keys"]
    later = Party(4, run="tuesday", identities=party.identities)
    data = bundle_of(later)[VICTIM]
    keys = decode(data).sections["keys"]
    other = Frame("consent", "tuesday", 0, "site001", {"view": bytes(32), "survivors": b""})
    consent = encode(other, party.identities["site001"], party.roster)
    for wrong in (old[1], consent):
        with pytest.raises(SecureSumError, match="'site001' did not send this as its run keys"):
            later.answer(VICTIM, forged(data, keys=[keys[0], wrong, *keys[2:]]))


def test_an_invented_site_is_refused():
    """A coordinator with a site of its own in its list cannot talk to the others."""
    party = Party(4)
    mole = Identity.generate()
    padded = Roster({**party.roster.keys, "site999": mole.public})
    data = bundle_of(party)[VICTIM]
    stranger = SecureClient("site999", mole, padded)
    signed = stranger.receive(encode(Frame("hello", "run", 0, "site999")))
    with pytest.raises(SecureSumError, match="not in the roster"):
        party.answer(VICTIM, forged(data, keys=[*decode(data).sections["keys"], signed]))
    with pytest.raises(SecureSumError, match="not in the roster"):
        party.sums.receive(signed)


def test_a_bundle_of_too_few_is_refused():
    party = Party(6)
    data = bundle_of(party)[VICTIM]
    with pytest.raises(BelowThresholdError):
        party.answer(VICTIM, forged(data, keys=decode(data).sections["keys"][:4]))


# --- replays -----------------------------------------------------------------------------------


def test_messages_of_an_old_sum_are_refused(liar):
    first = dict(liar.sums.ask(b"one"))
    heard = {name: liar.answer(name, data) for name, data in first.items()}
    envelopes = [e for answer in heard.values() for e in liar.sums.receive(answer)]
    reveals = dict(envelopes)
    liar.carry(envelopes)
    second = dict(liar.sums.ask(b"two"))
    for old in (first[VICTIM], reveals[VICTIM]):
        with pytest.raises(SecureSumError, match="not expected"):
            liar.answer(VICTIM, old)
    with pytest.raises(SecureSumError, match="not awaited"):
        liar.sums.receive(heard[VICTIM])
    # Old shares in a new envelope.
    boxes = decode(first[VICTIM]).sections["boxes"]
    with pytest.raises(SecureSumError, match="belong to another sum"):
        liar.answer(VICTIM, forged(second[VICTIM], boxes=boxes))
    # Shares that were meant for somebody else.
    boxes = decode(second["site001"]).sections["boxes"]
    with pytest.raises(SecureSumError, match="belong to another sum"):
        liar.answer(VICTIM, forged(second[VICTIM], boxes=boxes))
    (total,) = liar.carry(second.items()).arrays
    np.testing.assert_array_equal(total, liar.plain(liar.sites))


def test_a_sum_that_was_not_prepared_is_refused(liar):
    data = dict(liar.sums.ask(b"q"))[VICTIM]
    with pytest.raises(SecureSumError, match="of sum 5 is not expected"):
        liar.answer(VICTIM, encode(replace(decode(data), number=5)))


# --- sites that lie ----------------------------------------------------------------------------


class WrongShares(SecureClient):
    """Reveals shares that are not those it was given."""

    def _reveal(self, frame, state):
        held = dict(state.asked.held)
        held[VICTIM] = tuple(bytes([share[0]]) + share[:0:-1] for share in held[VICTIM])
        return super()._reveal(frame, replace(state, asked=replace(state.asked, held=held)))


class WrongSeed(SecureClient):
    """Commits to, and puts in its vault, another seed than it shares with its neighbour."""

    def _prepared(self, run, network, alive, number, pairs):
        wrong = Pair(bytes(32), pairs["site001"].channel)
        return super()._prepared(run, network, alive, number, {**pairs, "site001": wrong})


@pytest.mark.parametrize("drop", [False, True], ids=["nobody drops", "the victim drops"])
def test_wrong_shares_are_an_error_and_never_a_wrong_sum(drop):
    party = Party(5)
    party.sites["site003"] = WrongShares("site003", party.identities["site003"], party.roster)
    party.start()
    with pytest.raises(SecureSumError, match=VICTIM):
        party.sum(lost=lambda name, kind, when: drop and name == VICTIM and kind == "ask")
    assert party.sums.phase == "failed"


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
    assert all(site._state.network == mine for site in party.sites.values())
