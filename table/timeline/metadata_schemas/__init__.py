"""The Avro schemas of the timeline's files, as Hudi 1.2.0 writes them (`org.apache.hudi.avro.model`).

Belongs here: schemas as values, one module for each kind of instant. Not here: their encoders.
"""
