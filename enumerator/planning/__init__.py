"""Planning: from a request and the state of a table to a plan of splits.

Belongs here: reading a table's state (`discovery`), selecting instants and file groups (`selection`), making splits
(`slice_planner`, `change_planner`). Not here: following a table over time (`continuous`), consumer groups (`core`),
reading rows (`reader`).
"""
