"""The metadata table: the Hudi table under `.hoodie/metadata`, in which writers store listings and statistics.

Belongs here: valid content, file slices and records, the `files` partition as a listing, column and partition
statistics. Not here: the HFile format (`table.hfile`), use of listings and statistics for a query (enumerator). The
metadata table is an index: a table can be read without it, so no failure here may fail a read.
"""
