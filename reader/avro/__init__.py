"""Avro records to Arrow columns, by a compiled decoder or by fastavro, with equal results.

Belongs here: the decoding of records by their writer schema. Not here: blocks (`log`), promotions of values
(`values.widening`).
"""
