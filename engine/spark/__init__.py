"""The Spark data source `penstock`, batch and stream. Only this folder imports pyspark.

* In the planner processes of Spark: `source`, `stored_options`, `planning`, `batch_reader`, `stream.reader`.
* In the Python workers: `task`, `schema.casting`, `schema.narrowing`. `interpreter` starts both kinds of process.
* In the user's program: `watermark.eviction`, `stream.await_end`, `query`, `catalog`, `write`, whose
  tasks run in the workers (`penstock.spark`).

Not here: the functions that users import (`penstock.spark`).
"""
