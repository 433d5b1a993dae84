"""Keeps the metadata table of a table current with its commits, or removes it as Hudi does.

Belongs here: the commits, rollbacks and compactions of the partition `files`, and the removal of partitions that are
not kept. Not here: reading a metadata table (`table.metadata`), and when an instant is recorded (`writer.transaction`).
"""
