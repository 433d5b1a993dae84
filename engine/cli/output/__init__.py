"""What commands print and write: rows, cells, profiles, log lines."""
