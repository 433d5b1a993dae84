"""The Spark data source `penstock`: batch and stream. The only place that imports pyspark."""
