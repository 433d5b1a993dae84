"""Avro records of Arrow columns.

Belongs here: how values are encoded, column by column. Not here: blocks of logs, schemas of tables.
"""
