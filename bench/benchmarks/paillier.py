"""What FedMF costs under encryption: a few hundred numbers measured, a round worked out from them.

    python bench/benchmarks/paillier.py

Processor time of this package's own Paillier on Python integers. A client encrypts its moves and
decrypts Q; the server adds the moves of all clients.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from flfl_bench.baselines.paillier import KeyPair

SENSORS, SLOTS, RANK = 36, 8647, 10


def timed(work: Callable[[], np.ndarray], numbers: int) -> tuple[np.ndarray, float]:
    """What the work gave, and its seconds for each number."""
    start = time.process_time()
    result = work()
    return result, (time.process_time() - start) / numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", type=int, default=200)
    n = parser.parse_args().numbers
    values = np.random.default_rng(0).standard_normal(n)
    print(
        "| key bits | encrypt ms | add us | decrypt ms | bytes a number | s a client and round"
        " | s the server a round | MB a client each way | MB all each way |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for bits in (1024, 2048):
        keys = KeyPair.generate(bits)
        sealed, encrypt = timed(lambda keys=keys: keys.public.seal(values), n)
        sums, add = timed(lambda sealed=sealed: sealed + sealed, n)
        opened, decrypt = timed(lambda keys=keys, sums=sums: keys.private.open(sums), n)
        np.testing.assert_allclose(opened, 2 * values, atol=1e-8)
        each, size = SLOTS * RANK, sealed[0].nbytes
        print(
            f"| {bits} | {1e3 * encrypt:.2f} | {1e6 * add:.1f} | {1e3 * decrypt:.2f} | {size}"
            f" | {each * (encrypt + decrypt):.0f} | {SENSORS * each * add:.0f}"
            f" | {each * size / 1e6:.1f} | {SENSORS * each * size / 1e6:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
