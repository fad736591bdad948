"""Baselines, experiments, statistics and figures: how FLFL compares with other methods."""
