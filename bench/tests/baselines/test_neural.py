"""MetaMF, FeSoG and FedGNN: two forms that agree, noise by the element, sane estimates."""

import subprocess
import sys

import numpy as np
import pytest

from flfl.datasets.synthetic import synthesize
from flfl.errors import DivergedError
from flfl.methods import create
from flfl_bench.baselines import attention, metamf

NAMES = ("metamf", "fesog", "fedgnn")
TINY = {"metamf": {"rank": 4, "low_rank": 2, "memory": 4, "hidden": 4}, "fedgnn": {"refresh": 2}}

WITHOUT_JAX = """
import sys
from importlib.machinery import PathFinder
class WithoutJax(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "jax" else super().find_spec(name, path, target)
sys.meta_path = [WithoutJax if finder is PathFinder else finder for finder in sys.meta_path]
import numpy as np
import flfl
from flfl.methods import create
from flfl.cli import main
X = np.arange(8.0).reshape(4, 2)
print(create("lfa").fit(X).estimates_.shape)
for name in sys.argv[1:]:
    try:
        create(name).fit(X)
    except flfl.errors.InputError as error:
        print(error)
assert "jax" not in sys.modules
main(["methods"])
"""


def test_without_jax_the_registry_says_so_and_the_rest_works():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_JAX, *NAMES], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "(4, 2)" in done.stdout
    assert done.stdout.count("pip install 'flfl-bench[neural]'") == len(NAMES)
    assert done.stdout.count("jax (not installed)") == len(NAMES)


@pytest.fixture(scope="module")
def network():
    return synthesize(6, 80, rank=2, rng=np.random.default_rng(0))


@pytest.mark.parametrize("name", NAMES)
def test_messages_and_the_batch_agree(name, network):
    """Same estimates to float32's rounding; the same bytes and messages to the last one."""
    pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    table, sensors = network
    both = [
        create(name, rounds=5, batched=batched, **TINY.get(name, {})).fit(
            table.values, sensors=sensors
        )
        for batched in (True, False)
    ]
    np.testing.assert_allclose(both[0].estimates_, both[1].estimates_, rtol=1e-4)
    assert both[0].traffic_ == both[1].traffic_
    assert both[0].traffic_.rounds == 5
    assert both[0].traffic_.bytes_up > 4 * both[0].traffic_.numbers > 0


def test_metamf_the_split_gradient_is_the_joint_gradient():
    """Clients differentiate by their models, the server pulls that back: the chain rule."""
    jax = pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    rng = np.random.default_rng(0)
    sizes = metamf.Sizes(sensors=3, slots=12, d=8, s=3, m=5, o=6)
    theta = metamf.start(sizes, rng)
    Z, train = rng.standard_normal((3, 12)).astype(np.float32), rng.random((3, 12)) < 0.6
    joint = jax.grad(metamf.joint_loss)(theta, Z, train, sizes)
    models = metamf.all_models(theta, sizes)
    uploads = [
        metamf.client_gradient(metamf.Phi(*(part[i] for part in models)), Z[i], train[i])
        for i in range(3)
    ]
    stacked = jax.tree_util.tree_map(lambda *parts: np.stack(parts), *uploads)
    split = metamf.pull_back(theta, stacked, sizes)
    assert max(float(abs(part).max()) for part in jax.tree_util.tree_leaves(joint)) > 1e-3
    for one, other in zip(*map(jax.tree_util.tree_leaves, (split, joint)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_noise_is_drawn_for_every_element():
    jax = pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    shapes = {"Q": np.zeros((50, 3)), "u": np.zeros(3)}
    dice = attention.roll_all(attention.client_streams(0, 2000), 1)
    draws = jax.jit(jax.vmap(lambda one: attention.noise_like(shapes, one)))(dice)
    for name in shapes:
        x = np.asarray(draws[name], dtype=float)
        # Laplace of scale 1: variance 2, mean magnitude 1. Its variance has a kurtosis of 6.
        np.testing.assert_allclose(x.var(axis=0), 2.0, rtol=5 * np.sqrt(5 / 2000))
        np.testing.assert_allclose(np.abs(x).mean(axis=0), 1.0, rtol=5 / np.sqrt(2000))
        flat = x.reshape(2000, -1)
        apart = np.corrcoef(flat[:, :3].T)[np.triu_indices(3, 1)]
        assert np.abs(apart).max() < 5 / np.sqrt(2000)


@pytest.mark.parametrize("unobserved", [0, 3, 10, 33])
def test_pseudo_slots_are_distinct_and_unobserved(unobserved):
    pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    order = np.random.default_rng(0).permutation(40).astype(np.int32)
    stream, seen = attention.client_streams(0, 1)[0], set()
    for _ in range(30):
        chosen = np.asarray(attention.pseudo_slots(attention.roll(stream, 10), order, unobserved))
        slots = chosen[chosen < 40]
        assert len(set(slots)) == len(slots) == min(10, unobserved)
        assert set(slots) <= set(order[:unobserved])
        seen |= set(slots)
    assert len(seen) > 0.9 * unobserved or unobserved == 0


def test_a_sensor_without_neighbours_takes_nothing_from_them():
    jax = pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    rng = np.random.default_rng(0)
    layer = attention.start_layer(3, rng)
    own, others = rng.standard_normal(3), rng.standard_normal((4, 3))

    def total(present):
        return jax.value_and_grad(lambda rows: attention.attend(layer, own, rows, present).sum())(
            others.astype(np.float32)
        )

    value, slope = total(np.zeros(4, bool))
    assert value == 0
    np.testing.assert_array_equal(slope, 0.0)
    value, slope = total(np.array([True, False, True, False]))
    assert value != 0
    np.testing.assert_array_equal(slope[1::2], 0.0)
    assert np.abs(slope[::2]).min() > 0


def test_fedgnn_says_what_its_epsilon_comes_to(network):
    pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    table, sensors = network
    model = create("fedgnn", rounds=3, rank=2, pseudo=1, clip=0.1, noise=0.2)
    notes = model.fit(table.values, sensors=sensors).traffic_.notes
    assert any("epsilon is 1 for one number of one round, 3 for it over the 3" in n for n in notes)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_diverges_says_so(name, network):
    pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    table, sensors = network
    with pytest.raises(DivergedError, match="kept back rose"):
        create(name, rounds=30, learning_rate=1e15).fit(table.values, sensors=sensors)
