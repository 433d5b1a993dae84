"""The streaming source: offsets, micro-batches, its end."""
