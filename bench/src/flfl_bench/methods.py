"""The baselines as methods of `flfl`: the entry points of this package name these objects."""

from functools import partial
from typing import Any

from flfl.methods import Method
from flfl_bench.baselines.fedgnn import FedGNN
from flfl_bench.baselines.fedice import FedICE
from flfl_bench.baselines.fedmf import FedMF
from flfl_bench.baselines.fedmssa import FedMSSA
from flfl_bench.baselines.fedrec import FedRec
from flfl_bench.baselines.fedrec_plus import FedRecPlus
from flfl_bench.baselines.fesog import FeSoG
from flfl_bench.baselines.idw import IDW
from flfl_bench.baselines.kalman_em import KalmanEM
from flfl_bench.baselines.lfa import LFA
from flfl_bench.baselines.lrds import LRDS
from flfl_bench.baselines.metamf import MetaMF
from flfl_bench.baselines.rfrec import RFRec
from flfl_bench.baselines.softimpute import SoftImpute
from flfl_bench.baselines.trmf import TRMF
from flfl_bench.baselines.tvgs import TVGS, GraphTRSS
from flfl_bench.peers.centroid import CDRec
from flfl_bench.peers.deep import BRITS, SAITS, ImputeFormer
from flfl_bench.peers.factor import DynamicFactor
from flfl_bench.peers.imputers import KNN, Iterative

_federated = partial(Method, federated=True)
_neural = partial(_federated, needs="jax", extra="flfl-bench[neural]")
_central = partial(Method, pooled=True)
_deep = partial(_central, needs="pypots", extra="flfl-bench[deep]")


def _grid(names: str, *rows: Any) -> tuple[dict[str, Any], ...]:
    """The settings that tuning tries: each row gives the named ones values.

    >>> _grid("rank ridge", (10, 0.1), (20,))
    ({'rank': 10, 'ridge': 0.1}, {'rank': 20})
    """
    return tuple(dict(zip(names.split(), row, strict=False)) for row in rows)


# Few readings of a slot want a large ridge, many a high rank.
_FACTORS = _grid("rank ridge", (10, 0.15), (10, 0.08), (20, 0.025), (20, 0.005))

fedmf = _federated(
    "fedmf",
    FedMF,
    "federated matrix factorisation; its plain uploads reveal the readings",
    grid=_FACTORS,
)
fedrec = _federated(
    "fedrec",
    FedRec,
    "federated factors; made-up rows hide which slots a sensor observed, not its readings",
    # What is made up acts as a ridge of its own.
    grid=_grid("rank ridge", (10, 0.1), (10, 0.03), (20, 0.02), (20, 0.005)),
)
fedrec_plus = _federated(
    "fedrec++",
    FedRecPlus,
    "fedrec whose made-up rows are taken out again by denoising clients",
    grid=_FACTORS,
)
rfrec = _federated(
    "rfrec",
    RFRec,
    "federated factors: each client keeps a copy of all slots' factors and sends it whole",
    grid=_grid(
        "rank ridge slot_ridge", (10, 0.1, 0.5), (10, 0.01, 0.5), (10, 0.01, 0.1), (20, 0.002, 0.02)
    ),
)
metamf = _neural(
    "metamf",
    MetaMF,
    "a server that generates a small private network for every sensor",
    # Narrow generators share more between sensors, wide ones fit dense tables better.
    grid=_grid("hidden learning_rate", (16,), (64, 0.01)),
)
fesog = _neural(
    "fesog",
    FeSoG,
    "attention over neighbours and observed slots, with pseudo readings",
    grid=_grid("decay", (1e-3,), (1e-2,)),
)
fedgnn = _neural(
    "fedgnn",
    FedGNN,
    "a local graph network whose gradients are cut and noised",
    # Long steps learn more in the rounds there are, short ones average more noise away.
    grid=_grid("learning_rate", (0.02,), (0.05,)),
)
lfa = _central(
    "lfa",
    LFA,
    "latent factors by alternating least squares, central",
    grid=_grid("rank ridge", (3,), (10,), (20,), (20, 0.3)),
)
tvgs = _central(
    "tvgs",
    TVGS,
    "changes from slot to slot are smooth on the graph, central",
    grid=_grid("alpha", (1e-3,), (0.02,), (0.5,), (2.0,)),
)
graphtrss = _central(
    "graphtrss",
    GraphTRSS,
    "as tvgs, with Sobolev smoothness: each sensor's changes are small as well, central",
    grid=_grid("alpha epsilon", (1e-3, 0.02), (0.2, 0.1), (0.01, 2.0), (0.005, 10.0)),
)
lrds = _central(
    "lrds",
    LRDS,
    "low rank and smooth changes on the graph together, central",
    grid=_grid("alpha shrinkage", (1e-3, 0.003), (1e-3, 0.03), (0.05, 0.003), (0.5, 0.003)),
)
trmf = _central(
    "trmf",
    TRMF,
    "latent factors whose courses predict themselves, central",
    grid=_grid(
        "rank ridge temporal_weight", (40, 0.3, 0.3), (40, 1.0, 1.0), (40, 3.0, 3.0), (20, 3.0, 3.0)
    ),
)
softimpute = _central(
    "softimpute",
    SoftImpute,
    "shrunken singular values, central",
    grid=_grid("shrinkage", (0.01,), (0.05,), (0.2,), (0.6,)),
)
idw = _central(
    "idw",
    IDW,
    "the others' deviations at that slot, the nearer the heavier, central",
    grid=_grid("power", (1.0,), (2.0,), (3.0,), (4.0,)),
)
kalman_em = _central(
    "kalman-em", KalmanEM, "a full-rank linear dynamical system learned by EM, central"
)
fedmssa = _federated(
    "fedmssa",
    FedMSSA,
    "federated singular spectrum analysis: one low-rank matrix of all sensors' windows",
    grid=_grid("window rank ridge", (24, 4, 0.05), (24, 8, 0.05), (24, 8, 0.3), (48, 16, 0.1)),
)
fedice = _federated(
    "fedice",
    FedICE,
    "chained regressions on the slots around a gap, coefficients averaged over the clients",
    # More rounds help long gaps and run away from scattered ones.
    grid=_grid("reach rounds", (1, 4), (1, 20), (4, 3), (4, 20)),
)
iterative = _central(
    "iterative",
    Iterative,
    "scikit-learn's IterativeImputer: each sensor from the others, central",
    grid=_grid("lags", (0,), (1,)),
)
knn = _central(
    "knn",
    KNN,
    "scikit-learn's KNNImputer: the slots that look most alike, central",
    grid=_grid("neighbours lags", (5, 0), (20, 0), (5, 1), (20, 1)),
)
dynamic_factor = _central(
    "dynamic-factor",
    DynamicFactor,
    "statsmodels' dynamic factor model, central",
)
saits = _deep("saits", SAITS, "PyPOTS' SAITS: self-attention in windows of time, central")
brits = _deep("brits", BRITS, "PyPOTS' BRITS: a recurrent network in both directions, central")
imputeformer = _deep(
    "imputeformer", ImputeFormer, "PyPOTS' ImputeFormer: low-rank attention for networks, central"
)
cdrec = _central(
    "cdrec",
    CDRec,
    "ImputeGAP's CDRec: low rank by centroid decomposition, central",
    needs="imputegap",
    extra="flfl-bench[gap]",
    grid=_grid("rank", (1,), (3,), (6,), (12,)),
)
