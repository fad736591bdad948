"""The baselines as methods of `flfl`: the entry points of this package name these objects."""

from flfl.methods import Method
from flfl_bench.baselines.fedgnn import FedGNN
from flfl_bench.baselines.fedmf import FedMF
from flfl_bench.baselines.fedrec import FedRec
from flfl_bench.baselines.fedrec_plus import FedRecPlus
from flfl_bench.baselines.fesog import FeSoG
from flfl_bench.baselines.graphtrss import GraphTRSS
from flfl_bench.baselines.idw import IDW
from flfl_bench.baselines.kalman_em import KalmanEM
from flfl_bench.baselines.lfa import LFA
from flfl_bench.baselines.lrds import LRDS
from flfl_bench.baselines.metamf import MetaMF
from flfl_bench.baselines.rfrec import RFRec
from flfl_bench.baselines.softimpute import SoftImpute
from flfl_bench.baselines.trmf import TRMF
from flfl_bench.baselines.tvgs import TVGS

_FACTOR_GRID = (
    {"rank": 10, "ridge": 0.15},
    {"rank": 10, "ridge": 0.08},
    {"rank": 20, "ridge": 0.025},
    {"rank": 20, "ridge": 0.005},
)
"""Few readings of a slot want a large ridge, many a high rank."""

lfa = Method(
    "lfa",
    LFA,
    "latent factors by alternating least squares, central",
    pooled=True,
    grid=({"rank": 3}, {"rank": 10}, {"rank": 20}, {"rank": 20, "ridge": 0.3}),
)

fedmf = Method(
    "fedmf",
    FedMF,
    "federated matrix factorisation; its plain uploads reveal the readings",
    federated=True,
    grid=_FACTOR_GRID,
)

fedrec = Method(
    "fedrec",
    FedRec,
    "federated factors; made-up rows hide which slots a sensor observed, not its readings",
    federated=True,
    # What is made up acts as a ridge of its own.
    grid=(
        {"rank": 10, "ridge": 0.1},
        {"rank": 10, "ridge": 0.03},
        {"rank": 20, "ridge": 0.02},
        {"rank": 20, "ridge": 0.005},
    ),
)

fedrec_plus = Method(
    "fedrec++",
    FedRecPlus,
    "fedrec whose made-up rows are taken out again by denoising clients",
    federated=True,
    grid=_FACTOR_GRID,
)

rfrec = Method(
    "rfrec",
    RFRec,
    "federated factors: each client keeps a copy of all slots' factors and sends it whole",
    federated=True,
    grid=(
        {"rank": 10, "ridge": 0.1, "slot_ridge": 0.5},
        {"rank": 10, "ridge": 0.01, "slot_ridge": 0.5},
        {"rank": 10, "ridge": 0.01, "slot_ridge": 0.1},
        {"rank": 20, "ridge": 0.002, "slot_ridge": 0.02},
    ),
)

metamf = Method(
    "metamf",
    MetaMF,
    "a server that generates a small private network for every sensor",
    federated=True,
    needs="jax",
    extra="flfl-bench[neural]",
    # Narrow generators share more between sensors, wide ones fit dense tables better.
    grid=({"hidden": 16}, {"hidden": 64, "learning_rate": 0.01}),
)

fesog = Method(
    "fesog",
    FeSoG,
    "attention over neighbours and observed slots, with pseudo readings",
    federated=True,
    needs="jax",
    extra="flfl-bench[neural]",
    grid=({"decay": 1e-3}, {"decay": 1e-2}),
)

fedgnn = Method(
    "fedgnn",
    FedGNN,
    "a local graph network whose gradients are cut and noised",
    federated=True,
    needs="jax",
    extra="flfl-bench[neural]",
    # Long steps learn more in the rounds there are, short ones average more noise away.
    grid=({"learning_rate": 0.02}, {"learning_rate": 0.05}),
)

tvgs = Method(
    "tvgs",
    TVGS,
    "changes from slot to slot are smooth on the graph, central",
    pooled=True,
    grid=({"alpha": 1e-3}, {"alpha": 0.02}, {"alpha": 0.5}, {"alpha": 2.0}),
)

graphtrss = Method(
    "graphtrss",
    GraphTRSS,
    "as tvgs, with Sobolev smoothness: each sensor's changes are small as well, central",
    pooled=True,
    grid=(
        {"alpha": 1e-3, "epsilon": 0.02},
        {"alpha": 0.2, "epsilon": 0.1},
        {"alpha": 0.01, "epsilon": 2.0},
        {"alpha": 0.005, "epsilon": 10.0},
    ),
)

lrds = Method(
    "lrds",
    LRDS,
    "low rank and smooth changes on the graph together, central",
    pooled=True,
    grid=(
        {"alpha": 1e-3, "shrinkage": 0.003},
        {"alpha": 1e-3, "shrinkage": 0.03},
        {"alpha": 0.05, "shrinkage": 0.003},
        {"alpha": 0.5, "shrinkage": 0.003},
    ),
)

trmf = Method(
    "trmf",
    TRMF,
    "latent factors whose courses predict themselves, central",
    pooled=True,
    grid=(
        {"rank": 40, "ridge": 0.3, "temporal_weight": 0.3},
        {"rank": 40, "ridge": 1.0, "temporal_weight": 1.0},
        {"rank": 40, "ridge": 3.0, "temporal_weight": 3.0},
        {"rank": 20, "ridge": 3.0, "temporal_weight": 3.0},
    ),
)

softimpute = Method(
    "softimpute",
    SoftImpute,
    "shrunken singular values, central",
    pooled=True,
    grid=tuple({"shrinkage": share} for share in (0.01, 0.05, 0.2, 0.6)),
)

idw = Method(
    "idw",
    IDW,
    "the others' deviations at that slot, the nearer the heavier, central",
    pooled=True,
    grid=tuple({"power": power} for power in (1.0, 2.0, 3.0, 4.0)),
)

kalman_em = Method(
    "kalman-em",
    KalmanEM,
    "a full-rank linear dynamical system learned by EM, central",
    pooled=True,
)
