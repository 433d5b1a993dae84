"""The watermark of a source in Spark."""
