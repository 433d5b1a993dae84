"""What runs in a Spark task."""
