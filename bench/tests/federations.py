"""A small network, and both paths of a federated method run on it."""

from dataclasses import asdict

import numpy as np

from flfl.protocol.traffic import Traffic
from flfl_bench.baselines.federation import Post, train


def readings(sensors=6, slots=150, rate=0.6, seed=0):
    """(M, N) readings that follow three factors, NaN = missing; one slot that nobody observed."""
    rng = np.random.default_rng(seed)
    factors = np.cumsum(rng.standard_normal((slots, 3)), axis=0) / 5
    Y = rng.gamma(2.0, 5.0, (sensors, 1)) + rng.standard_normal((sensors, 3)) @ factors.T
    Y[rng.random(Y.shape) > rate] = np.nan
    Y[:, 7] = np.nan
    return Y


def names(Y):
    return [f"s{i}" for i in range(len(Y))]


def by_message(model, Y, **options):
    """Estimates in the sensors' own scaled units, the traffic, and the parties."""
    traffic = Traffic()
    network = model.by_message(Y, names(Y), Post(traffic), **options)
    return train(network, model.rounds, traffic), traffic, network


def agree(model, Y):
    """Both forms give the same estimates and traffic, which come back."""
    estimates, traffic, _ = by_message(model, Y)
    fast = Traffic()
    batched = train(model.at_once(model.local(Y, names(Y)), Post(fast)), model.rounds, fast)
    np.testing.assert_allclose(batched, estimates, atol=1e-10)
    assert asdict(fast) == asdict(traffic)
    return estimates, traffic


def arrays(party):
    """All arrays that a party holds, in whatever it holds."""
    if isinstance(party, np.ndarray):
        return [party]
    if isinstance(party, dict):
        held = party.values()
    elif isinstance(party, list | tuple):
        held = party
    else:
        held = getattr(party, "__dict__", {}).values()
    return [array for one in held for array in arrays(one)]


def shared_memory(network):
    """Pairs of parties that hold the same memory; there must be none."""
    held = [arrays(party) for party in (network.server, *network.clients)]
    return [
        (one, other)
        for one in range(len(held))
        for other in range(one)
        if any(np.may_share_memory(a, b) for a in held[one] for b in held[other])
    ]
