"""Schemas: parsing of Avro JSON, the Arrow form, type compatibility, the schema of a table at an instant.

Belongs here: facts about types. Not here: decoding of values and rows (reader).
"""
