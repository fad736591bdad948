"""No key, seed, share or reading in a log, an exception, a repr, a file or a plain upload."""

import base64
import logging
import traceback
from dataclasses import replace

import numpy as np
import pytest

from flfl.secagg import Identity
from flfl.secagg.keys import expand
from flfl.secagg.wire import decode, encode
from secure_parties import Party

READING = 1234567890123456


def spellings(secret):
    """How a secret may look in text."""
    return {
        secret.hex(),
        repr(secret)[2:-1],
        base64.b64encode(secret).decode().rstrip("="),
        str(int.from_bytes(secret)),
        str(int.from_bytes(secret, "little")),
        str(list(secret)),
    }


def secrets_of(site):
    """Every secret that a site holds now."""
    state = site._state
    asked = getattr(state, "asked", None)
    ready = state if asked is None else state.ready
    found = [ready.secret, *ready.own]
    for peer, pair in ready.pairs.items():
        found += [pair.masks, pair.channel, expand(pair.masks, b"seed")]
        found += [expand(pair.channel, b"from " + name.encode()) for name in (peer, site.name)]
    if asked is not None:
        found += [share for shares in asked.held.values() for share in shares]
    return found


@pytest.fixture
def planted(tmp_path, monkeypatch, caplog):
    """A run with marked identities and readings, and everything it holds, said and wrote."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    private = {f"site{i:03d}": bytes([65 + i]) * 32 for i in range(4)}
    party = Party(4, identities={n: Identity.from_bytes(key) for n, key in private.items()})
    party.values = {name: np.array([READING + i]) for i, name in enumerate(private)}
    party.start()
    return party, private, caplog, tmp_path


def objects(party):
    """All the objects of a run, whatever holds them."""
    found, todo = {}, [party.sums, *party.sites.values(), *party.identities.values()]
    while todo:
        thing = todo.pop()
        if id(thing) in found or not type(thing).__module__.startswith("flfl"):
            if isinstance(thing, dict):
                todo.extend(thing.values())
            continue
        found[id(thing)] = thing
        todo.extend(getattr(thing, "__dict__", {}).values())
    return found.values()


def failures(party, asked):
    """Errors of all kinds, as text with their tracebacks."""
    site, data = party.sites["site000"], asked["site000"]
    frame = decode(data)
    noise = [bytes(len(box)) for box in frame.sections["boxes"]]
    foreign = replace(frame, sections={**frame.sections, "boxes": noise})
    attempts = [
        lambda: site.receive(data[:-40] + bytes(40)),
        lambda: site.mask(site.receive(data), [np.array([2**62])]),
        lambda: party.sites["site001"].receive(data),
        lambda: party.sums.receive(data),
        lambda: party.sums.receive(party.uploads["site001"]),
        lambda: site.receive(encode(foreign)),
    ]
    for attempt in attempts:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            attempt()
        yield "".join(traceback.format_exception(caught.value)) + repr(caught.value)


def test_nothing_secret_is_said_or_written(planted):
    party, private, caplog, folder = planted
    secrets = [*private.values()]
    for site in party.sites.values():
        secrets += secrets_of(site)
    asked = dict(party.sums.ask(b"question"))
    party.uploads["site001"] = party.answer("site001", asked["site001"])
    party.sums.receive(party.uploads["site001"])
    said = [repr(thing) + str(thing) for thing in objects(party)]
    assert len(said) > 20, "the search must find the run's objects"
    said += failures(party, asked)
    party.carry((name, data) for name, data in asked.items() if name != "site001")
    said += [repr(thing) for thing in objects(party)]
    for site in party.sites.values():
        secrets += secrets_of(site)
    text = "\n".join([*said, caplog.text])
    assert len(secrets) > 50
    for secret in secrets:
        assert not any(spelling in text for spelling in spellings(secret))
    assert str(READING)[:12] not in text
    assert list(folder.iterdir()) == []


def test_the_search_finds_a_secret_that_is_said(planted):
    """Positive control."""
    party, *_ = planted
    secret = party.sites["site000"]._state.secret
    for text in (f"{secret}", secret.hex(), f"{int.from_bytes(secret)}"):
        assert any(spelling in text for spelling in spellings(secret))


def test_uploads_hold_no_secret_and_no_reading_in_the_plain(planted):
    """Unmasking reveals shares of self-masks; everything else stays closed."""
    party, private, *_ = planted
    closed, revealed, heard = list(private.values()), [], []

    def listen(name, kind, when):
        for site in party.sites.values():
            closed.extend(s for s in secrets_of(site) if len(s) == 32)
            if hasattr(site._state, "asked"):
                held = site._state.asked.held.values()
                revealed.extend(shares[0] for shares in held)
                closed.extend(shares[1] for shares in held)

    answer = party.answer
    party.answer = lambda name, data: heard.append(answer(name, data)) or heard[-1]
    party.sum(lost=listen)
    everything = b"".join(heard)
    assert len(closed) > 50
    assert all(share in everything for share in revealed), "the search must find what is sent"
    assert not any(secret in everything for secret in closed)
    for value in party.values.values():
        assert value.astype("<i8").tobytes() not in everything
