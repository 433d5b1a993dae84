"""Base files: their columns, batches, row group statistics, and the legacy calendar.

Belongs here: reading Parquet in the table's types. Not here: merging (`merge`), partition columns and filters on rows
(`split`), checks of the Parquet format itself (`penstock.table.parquet`).
"""
