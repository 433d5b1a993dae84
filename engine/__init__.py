"""What drives a read: Arrow consumer, Spark source, command line. pyspark is imported under `engine.spark` alone.

Nothing imports the engine.
"""
