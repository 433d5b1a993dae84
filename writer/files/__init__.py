"""Files of a write: base files, log files, base files that replace older ones, and rows that do not fit in memory.

Belongs here: the bytes of a file and its write statistics. Not here: which file group a row belongs to.
"""
