"""RFRec: both paths, Adam, and noise on every number."""

import numpy as np
import pytest

from federations import agree, readings
from flfl_bench.baselines.factors import start_slots
from flfl_bench.baselines.rfrec import Copy, RFRec


@pytest.mark.parametrize("options", [{}, {"clip": 0.4, "noise": 0.01}], ids=str)
def test_the_batched_path_is_the_object_path(options):
    _, traffic = agree(RFRec(rank=3, rounds=35, **options), readings())
    assert traffic.numbers > 0


def test_the_gradients_are_those_of_the_loss():
    """Adam's first step is the sign of the gradient, which finite differences give too."""
    model = RFRec(rank=3, slot_ridge=0.2, ridge=0.3, pull=2.0)
    local = model.local(readings(1, 20), ["s0"])
    Q, start = start_slots(20, 3, seed=1, spread=0.5), start_slots(20, 3, seed=2, spread=0.5)
    y, J, p = local.train.Y[0], local.train.J[0], local.start(3)[0]

    def loss(p, V):
        penalties = 0.3 * J.sum() * p @ p + 0.2 * (J[:, None] * V**2).sum()
        return (J * (y - V @ p) ** 2).sum() + penalties + 2 * ((V - Q) ** 2).sum()

    copy = Copy(model, local, 0, p, start)
    copy.step(Q)
    for moved, x, of in (
        (copy.p, p, lambda x: loss(x, start)),
        (copy.V, start, lambda x: loss(p, x)),
    ):
        slope = np.empty(x.size)
        for at in range(x.size):
            bump = 1e-6 * np.eye(x.size)[at].reshape(x.shape)
            slope[at] = (of(x + bump) - of(x - bump)) / 2e-6
        expected = -model.learning_rate * np.sign(slope)
        np.testing.assert_allclose((moved - x).ravel(), expected, rtol=1e-4)


def test_the_noise_is_drawn_for_every_number():
    Y, model = readings(1, 20_000, rate=0.5), RFRec(rank=3, noise=0.1)
    local = model.local(Y, ["s0"])
    Q = np.zeros((20_000, 3))
    noise = Copy(model, local, 0, np.zeros(3), Q).released()
    np.testing.assert_allclose(noise.var(axis=0), 2 * 0.1**2, rtol=0.1)  # Laplace: 2 b^2
    assert len(np.unique(noise)) == noise.size
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.05


def test_unobserved_slots_follow_the_others_and_are_not_shrunk():
    """The ridge acts on readings only: the copy of a slot without one moves by the pull alone."""
    Y, model = readings(1, 60), RFRec(rank=2, slot_ridge=5.0)
    local = model.local(Y, ["s0"])
    Q = start_slots(60, 2, seed=0, spread=1.0)
    copy = Copy(model, local, 0, np.ones(2), Q)
    for _ in range(5):
        copy.step(Q)
    free = local.train.J[0] == 0
    np.testing.assert_array_equal(copy.V[free], Q[free])
    assert (copy.V[~free] != Q[~free]).all()
