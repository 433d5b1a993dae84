"""The Hudi table format: properties, timeline, commit metadata, file slices, log format, schema, storage.

Belongs here: what the bytes of a table mean. Not here: which of them a query needs (enumerator), merged rows (reader).
Imports `penstock.proto` values and errors only.
"""
