"""Every other method, one file each, behind the estimator's contract."""

from flfl.baselines.registry import METHODS, Method, create, find

__all__ = ["METHODS", "Method", "create", "find"]
