"""Reads base files without logs by Spark's own Parquet reader, where the rows are provably the same.

Belongs here: which splits of a plan Spark can read, and the DataFrame of a plan. Not here: reading of rows (task).
"""
