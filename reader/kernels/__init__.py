"""Compiled loops and nothing else: numba kernels over numpy arrays, each with its safety rules stated.

No I/O, no Arrow types, no knowledge of Hudi beyond the array layout it is given.
"""
