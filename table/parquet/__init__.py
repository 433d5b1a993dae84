"""Checks of Parquet files before Arrow decodes them: footers, page headers, the legacy calendar.

Belongs here: facts about a Parquet file. Not here: reading of rows (reader).
"""
