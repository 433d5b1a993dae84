"""Partition paths: the column values in them, and the partitions that a filter excludes.

Belongs here: decisions about paths. Not here: listing (`table.files`, `table.metadata`).
"""
