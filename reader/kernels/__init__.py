"""Numba kernels over numpy arrays. Each module states its safety rules.

Belongs here: compiled loops. Not here: I/O, Arrow types, Hudi.
"""
