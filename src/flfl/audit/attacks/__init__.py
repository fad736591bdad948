"""Attacks: each file names its adversary, what it assumes, and scores what it reads."""
