"""The HFile format of Hudi's metadata table.

Belongs here: blocks, indexes and cells. Not here: the meaning of a cell's value (`table.metadata`).
"""
