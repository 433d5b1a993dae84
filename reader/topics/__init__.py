"""Reads ranges of a Kafka topic as rows of the table, or as changes by key.

Belongs here: decoding records, one module per value format (a `ValuesDecoder` and a case in `forms`), and the read of a
range. Not here: Kafka clients (`penstock.kafka`, used through its protocols), the choice of ranges (enumerator).
"""
