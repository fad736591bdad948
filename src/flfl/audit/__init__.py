"""Attacks on what the parties send, and what they find."""

from flfl.audit.attack import Attack, Case, Finding
from flfl.audit.report import Report
from flfl.audit.run import audit
from flfl.audit.saving import save_view
from flfl.audit.view import Truth, View, watch

__all__ = ["Attack", "Case", "Finding", "Report", "Truth", "View", "audit", "save_view", "watch"]
