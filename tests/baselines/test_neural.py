"""MetaMF, FeSoG and FedGNN: two forms that agree, noise by the element, sane estimates."""

import subprocess
import sys

import numpy as np
import pytest

from flfl.baselines import create
from flfl.data.synth import synthesize

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
from flfl.baselines import create
from flfl.cli import main
X = np.arange(8.0).reshape(4, 2)
print(create("lfa").fit(X).estimates_.shape)
for name in sys.argv[1:]:
    try:
        create(name).fit(X)
    except flfl.errors.InputError as error:
        print(error)
main(["methods"])
"""


def test_without_jax_the_registry_says_so_and_the_rest_works():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_JAX, *NAMES], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "(4, 2)" in done.stdout
    assert done.stdout.count("pip install 'flfl[neural]'") == len(NAMES)
    assert done.stdout.count("neural (not installed)") == len(NAMES)


def test_importing_the_package_does_not_import_jax():
    code = "import flfl, flfl.cli, sys; raise SystemExit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.fixture(scope="module")
def network():
    return synthesize(6, 80, rank=2, rng=np.random.default_rng(0))


@pytest.mark.parametrize("name", NAMES)
def test_messages_and_the_batch_agree(name, network):
    """Same estimates to float32's rounding; the same bytes and messages to the last one."""
    pytest.importorskip("jax", reason="needs the extra flfl[neural]")
    table, sensors = network
    both = [
        create(name, rounds=5, batched=batched, **TINY.get(name, {})).fit(
            table.values, sensors=sensors
        )
        for batched in (True, False)
    ]
    np.testing.assert_allclose(both[0].estimates_, both[1].estimates_, rtol=1e-4)
    assert both[0].ledger_ == both[1].ledger_
    assert both[0].ledger_.rounds == 5
    assert both[0].ledger_.bytes_up > 4 * both[0].ledger_.numbers > 0
