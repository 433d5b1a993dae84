"""From the lake into the topic: where a table that is filled from Kafka ends in its topic, and going on from there.

Pure: `offsets`, `formats`, `lake_commits`, `claims`, `walk`, `ladder`, `wording`, `topic_rounds`. Shells:
`table_commits` (the timeline), `spark_checkpoints` (a query's checkpoint), `resolving`, `topic_plans`, `following`.
What may be added: a step of a hybrid read behind the lake. Not here: reading the lake's rows, clients of Kafka
(`kafka`), records (reader), flags and output (`engine.cli`).
"""
