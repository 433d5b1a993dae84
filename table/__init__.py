"""The Hudi table format: properties, timeline, commit metadata, file slices, log format, schema, storage.

Belongs here: the meaning of a table's bytes. Not here: the files that a query needs (enumerator), merged rows (reader).
Imports values and errors of `penstock.proto` only.
"""
