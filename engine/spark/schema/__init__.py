"""Spark's schema of a table: types, casts, changes while a stream runs."""
