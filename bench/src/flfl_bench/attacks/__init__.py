"""Attacks on the uploads of other methods."""
