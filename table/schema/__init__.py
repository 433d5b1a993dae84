"""Schemas: Avro JSON parsed and bounded, its Arrow form, the schema a table has at an instant.

Belongs here: a fact about types. Not here: decoding of values (reader.kernels) or rows (reader).
"""
