"""Attacks on what the parties send, and what they find."""

from flfl.audit.report import Finding, Report
from flfl.audit.run import COORDINATOR, audit
from flfl.audit.view import Case, save_view, truth_path, watch

__all__ = ["COORDINATOR", "Case", "Finding", "Report", "audit", "save_view", "truth_path", "watch"]
