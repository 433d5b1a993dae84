"""Which file group each row belongs to: indexes, and the groups of new keys.

Belongs here: decisions over keys and file slices. Not here: writing files.
"""
