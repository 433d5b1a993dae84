"""Avro records to Arrow columns: a compiled decoder and its fallback."""
