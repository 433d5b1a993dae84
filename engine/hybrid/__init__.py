"""From the lake into the topic: where a table that is filled from Kafka ends in its topic, and going on from there.

Pure: `offsets`, `formats`, `lake_commits`, `claims`, `walk`, `ladder`, `wording`. Shells: `table_commits` (reads the
timeline through `penstock.table`), `spark_checkpoints` (reads a query's checkpoint). What may be added: the states of
a hand-over, the narrow adapter around a Kafka client, decoding of its records. Not here: reading the lake's rows
(enumerator, reader), flags and output (`engine.cli`).
"""
