"""Maths that only baselines use."""
