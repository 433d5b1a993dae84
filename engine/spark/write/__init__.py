"""Writes of Hudi tables from Spark: `penstock.spark.write`.

On the driver: `write`, `sink`, and `rows`, the order of the steps; on executors: `tagging`, `stored_keys`,
`file_groups`. `append` has the writers of the format penstock, for inserts alone. Rows travel between the steps as rows
of Spark, with the columns of `columns`; none passes the driver.
Not here: what a write is (`penstock.engine.write`), and files (`penstock.writer`).
"""
