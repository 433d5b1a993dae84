"""Timestamps of ORC base files: the zone of their writer, and those that are out of range for nanoseconds.

Belongs here: views of a file with another footer, and what its decoded timestamps become. Not here: the table's columns
and batches (`orc_file`), the ends of such files themselves (`penstock.table.orc_timestamps`).
"""
