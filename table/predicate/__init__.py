"""Row filters: SQL text to a bound tree, and the bounds that a tree excludes."""
