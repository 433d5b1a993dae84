"""Numba kernels over record keys, each with the function that passes Arrow arrays to it. Each module states its safety
rules.

Belongs here: compiled loops. Not here: I/O, rows.
"""
