"""The package's federated run equals the paper's loop as printed."""

import importlib.util
from pathlib import Path

import numpy as np
from scipy.linalg import block_diag

from flfl.paper.federation import PROTOCOL, PaperPlan, Setting, coordinate
from flfl.paper.graph import region_laplacian
from flfl.paper.objective import Weights
from flfl.paper.site import PaperSite, Readings
from flfl.protocol.messages import Question, decode
from flfl.protocol.session import Coordinator, Site
from flfl.protocol.traffic import Traffic
from flfl.transport import local

EXAMPLE = Path(__file__).parents[2] / "examples" / "paper_algorithm.py"
spec = importlib.util.spec_from_file_location("paper_algorithm", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

M, N, K, ROUNDS = 5, 30, 2, 12
REGIONS = np.array([0, 0, 0, 1, 1])


def test_the_package_equals_the_printed_loop():
    rng = np.random.default_rng(0)
    Y = np.outer(1 + 0.2 * rng.standard_normal(M), np.sin(np.arange(N) / 5))
    J = rng.random((M, N)) < 0.6
    places = rng.random((M, 2))
    blocks = {
        r: region_laplacian(places[r == REGIONS], "metric", 2, size=int((r == REGIONS).sum()))
        for r in (0, 1)
    }
    # Checks at the two ends only and nothing held out, so that nothing but the loop runs.
    settings = (Setting(K, Weights(0.01, 0.2, 0.3)),)
    plan = PaperPlan(settings, ROUNDS, "paper", "prompt", check_every=ROUNDS, holdout=0.0)
    sizes = {"slots": N}
    sites = []
    for r in (0, 1):
        home = np.flatnonzero(r == REGIONS)
        ids = tuple(f"s{i}" for i in home)
        own = Readings(ids, home, Y[home], J[home], REGIONS[home], blocks, 7)
        sites.append(Site(f"region{r}", PaperSite(own, plan), PROTOCOL))
    start = {}

    def tap(direction, _site, data):
        question = direction == "down" and decode(Question, data, PROTOCOL, sizes)
        if question and question.kind == "turn" and not start:
            start["Q"] = question.body["Q"].copy()
            start["P"] = np.vstack([s.program.state.P.copy() for s in sites])
            start["eta"] = float(question.body["eta"])

    traffic = Traffic()
    coordinator = Coordinator(
        coordinate(plan, sizes, 7, traffic), PROTOCOL, [s.name for s in sites], sizes
    )
    local.run(coordinator, sites, traffic, tap)
    P, Q = example.paper_algorithm(
        Y,
        J,
        block_diag(blocks[0], blocks[1]),
        start["P"],
        start["Q"],
        eta=start["eta"],
        lam=0.01,
        z1=0.2,
        z2=0.3,
        rounds=ROUNDS,
    )
    assert traffic.notes == []
    np.testing.assert_allclose(
        np.vstack([s.program.recover() for s in sites]), P @ Q.T, rtol=1e-10, atol=1e-12
    )


def test_the_example_runs(capsys):
    example.main()
    error, baseline = (
        float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()
    )
    assert error < 0.3 * baseline
