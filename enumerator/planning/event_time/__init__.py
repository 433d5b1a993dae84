"""Event-time bounds of files and partition paths.

Belongs here: bounds from Parquet footers, from the metadata table and from partition paths. Not here: which bounds a
plan's splits get (`planning.annotate`).
"""
