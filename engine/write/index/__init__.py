"""The index of a write: which one a table has, and the file group of each row.

Belongs here: the choice of the index, and its searches in the table. Not here: the decisions over keys and slices
(`penstock.writer.index`).
"""
