"""Base files: columns, row group statistics, the legacy calendar."""
