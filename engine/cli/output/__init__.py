"""The output of commands: rows, cells, reports, log lines."""
