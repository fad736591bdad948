"""MetaMF, FeSoG and FedGNN: two forms that agree, noise by the element, sane estimates."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from flfl.datasets.synthetic import synthesize
from flfl.errors import DivergedError
from flfl.methods import create
from flfl.protocol.traffic import Traffic
from flfl_bench.baselines import attention
from flfl_bench.baselines.federation import Post, train
from flfl_bench.baselines.neural import Readings

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
    return synthesize(5, 60, rank=2, rng=np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_messages_and_the_batch_agree(name, network):
    """Same estimates to float32's rounding; the same bytes and messages to the last one."""
    pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    from neural_messages import by_message

    table, sensors = network
    model = create(name, rounds=3, **TINY.get(name, {}))
    Z = (table.values - table.values.mean()).to_numpy().T / table.values.to_numpy().std()
    found = []
    for form in (model.at_once, partial(by_message, model)):
        readings, traffic = Readings.of(Z, np.random.default_rng(0)), Traffic()
        estimates = train(form(readings, sensors, Post(traffic)), model.rounds, traffic)
        found.append((estimates, traffic))
    (batched, fast), (slow, counted) = found
    np.testing.assert_allclose(batched, slow, rtol=1e-4, atol=1e-6)
    assert (fast.up, fast.down) == (counted.up, counted.down)
    assert (fast.messages_up, fast.messages_down) == (counted.messages_up, counted.messages_down)
    assert counted.numbers > 0


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


@pytest.mark.slow
def test_fedgnn_says_what_its_epsilon_comes_to(network):
    pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    table, sensors = network
    model = create("fedgnn", rounds=3, clip=0.1, noise=0.2, **TINY["fedgnn"])
    notes = model.fit(table.values, sensors=sensors).traffic_.notes
    assert any("epsilon is 1 for one number of one round, 3 for it over the 3" in n for n in notes)


@pytest.mark.slow
def test_a_run_that_diverges_says_so(network):
    pytest.importorskip("jax", reason="needs the extra flfl-bench[neural]")
    table, sensors = network
    with pytest.raises(DivergedError, match="kept back rose"):
        create("metamf", rounds=30, learning_rate=1e15, **TINY["metamf"]).fit(
            table.values, sensors=sensors
        )
