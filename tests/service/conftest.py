"""Fixtures for services that are made in the tests' own process."""

from service_log import own_log

__all__ = ["own_log"]
