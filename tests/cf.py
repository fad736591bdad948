"""The CF conventions as the community's own checker reads them."""

import json
import warnings

import pytest


def complaints(path, tmp_path, version="cf:1.8"):
    """Everything that the checker has against a file, at its strictest."""
    pytest.importorskip("compliance_checker")
    from compliance_checker.runner import CheckSuite, ComplianceChecker

    report = tmp_path / "cf.json"
    with warnings.catch_warnings():
        # Of the checker's own dependencies.
        warnings.simplefilter("ignore")
        CheckSuite.load_all_available_checkers()
        _, errors = ComplianceChecker.run_checker(
            str(path), [version], 0, "strict", output_filename=str(report), output_format="json"
        )
    assert not errors
    found = json.loads(report.read_text())[version]
    assert found["scored_points"] > 0
    levels = ("high_priorities", "medium_priorities", "low_priorities")
    checks = [check for level in levels for check in found[level]]
    # A check with all its points may still have something to remark.
    lost = [check for check in checks if check["value"][0] < check["value"][1]]
    return [message for check in lost for message in check["msgs"]]
