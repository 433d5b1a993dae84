"""Data files of a write: base files, log files, and base files that replace older ones.

Belongs here: the bytes of a file and its write statistics. Not here: which file group a row belongs to.
"""
