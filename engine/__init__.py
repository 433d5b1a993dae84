"""The engines: Arrow reader, consumer, Spark source, command line. Only `engine.spark` imports pyspark.

Nothing imports the engine.
"""
