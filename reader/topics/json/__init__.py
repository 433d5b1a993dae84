"""JSON records of a topic to columns."""
