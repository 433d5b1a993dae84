"""State and decisions of write transactions: who may change which file groups of a table, and which commits complete.

Belongs here: begins in order, leases of file groups, epochs, commits and how they end. Not here: the timeline's files.
"""
