"""Following a table: what is new behind a position, how far one round goes, what must never be passed over silently.

Belongs here: rounds, limits, late and vanished instants, lost ranges, time to loss. Not here: what a range's splits are
(`planner`, `changes`), groups and readers (`core`).
"""
