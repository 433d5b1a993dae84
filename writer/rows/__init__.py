"""The rows of a write: their columns and types, keys, partitions, ordering values, deletes.

Belongs here: what follows from the rows and the table's settings alone. Not here: what the table holds already.
"""
