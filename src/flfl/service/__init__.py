"""Runs between machines: a coordinator and sites as long-running processes.

An owner reads its own source, answers questions and writes its own result; nothing else leaves it.
"""
