"""The service's durable memory: records in order, and the splits of plans. Never a user's table.

Belongs here: stores (memory, SQLite), the journal that commits for many callers at once, leadership, checks of a state
directory. Not here: what a record means (`penstock.enumerator.core`).
"""
