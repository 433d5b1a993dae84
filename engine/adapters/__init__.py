"""Tables in other engines: Polars, DuckDB, Ray Data, Daft. Each imports its library when it is first used.

Belongs here: one module per engine, and what they share: how a table is planned for them (`source`) and which of their
conditions a scan can apply (`conditions`). Not here: reading a split (reader), planning (enumerator), Spark.
"""
