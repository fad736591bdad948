"""Attacks on what the parties send, and what they find."""
