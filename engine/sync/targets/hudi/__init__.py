"""Hudi tables as a target: the target, and its state in the commits of a table."""
