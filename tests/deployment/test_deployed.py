"""Real processes over TLS with secure sums: the same bits as in one process."""

import numpy as np
import pytest

from deployed import Deployment, in_process, pooled


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    return in_process(pooled(), tmp_path_factory.mktemp("wanted"))


def check(deployment, wanted):
    model, files = wanted
    shared = deployment.shared()
    for name, array in model.items():
        np.testing.assert_array_equal(shared[name], array)
    for name, data in files.items():
        assert deployment.filled(name) == data


def test_four_sites_with_tls_and_secure_sums_equal_one_process(tmp_path, wanted):
    deployment = Deployment(tmp_path)
    try:
        codes = deployment.start().wait(120)
        assert set(codes.values()) == {0}, (codes, deployment.said("coordinator")[-5:])
        check(deployment, wanted)
    finally:
        deployment.close()
