"""Doctests of modules that cannot be imported without an optional library are left out there."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("flwr") else ["src/flfl/transport/flower.py"]
