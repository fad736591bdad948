# %% [markdown]
# # The paper in fifty lines
#
# You will run the loop of the paper that this project starts from, see that it works, and see why its uploads give every reading away.
#
# The idea: each sensor `i` keeps a vector `p_i` at home, all share `Q`, and a reading is about `p_i . q_t`. Sensors near each other should have similar vectors, and so should slots that
# follow each other. Here is the loop as printed.

# %%
import numpy as np


def the_paper(Y, J, L, P, Q, eta=0.01, lam=1e-3, z1=0.1, z2=0.3, rounds=200):
    """Y: M x N readings; J: where they are known; L: Laplacian of the map, one block a region."""
    P, Q, N = P.copy(), Q.copy(), len(Q)
    D = np.diff(np.eye(N), axis=0).T  # from slot to slot
    for _ in range(rounds):
        for i in range(len(P)):
            # The sensor downloads Q.
            space, time = (L @ L.T)[i] @ P, Q.T @ D @ D.T
            j = np.flatnonzero(J[i])
            fit = Y[i, j] - Q[j] @ P[i] - z1 * Q[j] @ space - z2 * P[i] @ time[:, j]
            grad_p = (-2 * fit[:, None] * Q[j] + 2 * lam * P[i]).sum(axis=0)
            grad_Q = np.zeros_like(Q)
            grad_Q[j] = -2 * fit[:, None] * P[i] + 2 * lam * Q[j]
            P[i] -= eta * grad_p  # stays at home
            Q -= eta * grad_Q  # is uploaded, and the server moves Q
    return P, Q


# %% [markdown]
# ## It fills gaps
#
# Four sensors in two regions, with four readings in ten missing:

# %% alt="Sensor a over 80 slots: the recovered curve, the known readings that it was fitted to, and the hidden ones that it comes close to"
import matplotlib.pyplot as plt

rng, t = np.random.default_rng(0), np.arange(80)
truth = np.outer([1.0, 1.2, 0.8, 1.1], np.sin(t / 8)) + 0.02 * rng.standard_normal((4, 80))
J = rng.random(truth.shape) < 0.6
L = np.kron(np.eye(2), [[1, -1], [-1, 1]])  # two regions of two sensors
P, Q = 2 + 0.2 * rng.standard_normal((4, 1)), 0.01 * rng.standard_normal((80, 1))
p, q = the_paper(np.where(J, truth, 0), J, L, P, Q)

plt.figure(figsize=(8, 2.6))
plt.plot(t, (p @ q.T)[0], label="recovered")
plt.plot(t[J[0]], truth[0][J[0]], "o", ms=4, label="known")
plt.plot(t[~J[0]], truth[0][~J[0]], "o", ms=4, mfc="none", label="hidden")
plt.legend(), plt.title("sensor a")
plt.show()
print(f"mean error in the gaps {np.abs(p @ q.T - truth)[~J].mean():.3f}")
print(f"mean size of what was hidden {np.abs(truth)[~J].mean():.3f}")

# %% [markdown]
# At slots 57 and 62 it falls: no sensor has a reading there, and the loop as printed sums its smoothness over known entries only.
#
# ## It hides nothing
#
# The paper says that readings are protected because only gradients leave. Look at one: `grad_Q[j]` is not zero where the sensor has a reading, and it is a known function of that reading,
# of `Q`, which the server has, and of one vector `p_i`. After a few rounds the server has more equations than unknowns. The audit solves them:

# %%
import pandas as pd

from flfl.audit import audit

table = pd.DataFrame(np.where(J, truth, np.nan).T, columns=list("abcd"))
report = audit(table, disclosure="plain", sites=["north", "north", "south", "south"])
for one in report.findings:
    print(f"{one.name}: {one.readings_exposed:.0%} of the readings exposed")

# %% [markdown]
# That is why this package does something else: [a noisy copy](../concepts/noisy-copy.md), one release of sums, exact inference. The paper's method is here all the same, as
# `PaperFLFL`.
#
# **Next.** [The paper's figures and ours](../reproduction.md) reaches its table and says what it takes.
