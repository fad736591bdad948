"""The paper's algorithm as printed, in one function and NumPy alone.

No federation here: the loops only follow the paper's five steps. A test holds the package's
federated run equal to this one. Run it: ``python examples/paper_algorithm.py``.
"""

import numpy as np


def paper_algorithm(Y, J, L, P, Q, *, eta, lam, z1, z2, rounds):
    """Run the printed updates.

    Y : M x N readings; J : M x N mask, 1 where known; L : M x M Laplacian, one block a region;
    P : M x k and Q : N x k, the starting points (step 1: server and sensors draw them).
    """
    P, Q = P.copy(), Q.copy()
    N = len(Q)
    D = np.zeros((N, N - 1))
    D[np.arange(N - 1), np.arange(N - 1)] = -1
    D[np.arange(1, N), np.arange(N - 1)] = 1
    for _ in range(rounds):
        for i in range(len(P)):
            # Step 2: sensor i downloads Q. Step 3: it computes both gradients.
            grad_p, grad_Q = np.zeros_like(P[i]), np.zeros_like(Q)
            smooth_in_space = (L @ L.T)[i] @ P
            smooth_in_time = Q.T @ D @ D.T
            for j in np.flatnonzero(J[i]):
                c = (
                    Y[i, j]
                    - P[i] @ Q[j]
                    - z1 * smooth_in_space @ Q[j]
                    - z2 * P[i] @ smooth_in_time[:, j]
                )
                grad_p += -2 * c * Q[j] + 2 * lam * P[i]
                grad_Q[j] = -2 * c * P[i] + 2 * lam * Q[j]
            # Step 4: it moves its own vector and uploads the gradient of Q.
            P[i] -= eta * grad_p
            # Step 5: the server moves Q at once.
            Q -= eta * grad_Q
    return P, Q


def main():
    rng = np.random.default_rng(0)
    t = np.arange(80)
    truth = np.outer([1.0, 1.2, 0.8, 1.1], np.sin(t / 8)) + 0.02 * rng.standard_normal((4, 80))
    J = rng.random(truth.shape) < 0.6
    neighbours = np.array([[0, 1], [1, 0]])
    L = np.kron(np.eye(2), np.eye(2) - neighbours)  # two regions of two sensors
    P, Q = 2 + 0.2 * rng.standard_normal((4, 1)), 0.01 * rng.standard_normal((80, 1))
    P, Q = paper_algorithm(
        np.where(J, truth, 0), J, L, P, Q, eta=0.01, lam=1e-3, z1=0.1, z2=0.3, rounds=200
    )
    error = np.abs(P @ Q.T - truth)[~J].mean()
    print(f"mean absolute error on the hidden entries: {error:.3f}")
    print(f"the same if every gap were filled with zero: {np.abs(truth)[~J].mean():.3f}")


if __name__ == "__main__":
    main()
