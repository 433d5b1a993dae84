"""Row filters: SQL text to a tree bound to a schema, and the test of a tree against bounds.

Belongs here: grammar, tree, comparison with literals and bounds. Not here: evaluation over rows (reader).
"""
