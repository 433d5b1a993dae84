"""Parquet files before Arrow decodes them: footers, page headers, the legacy calendar."""
