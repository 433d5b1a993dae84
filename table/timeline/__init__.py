"""The timeline of a table: active and archived instants, commit metadata, plans of table services.

Belongs here: names and contents of timeline files. Not here: the order in which commits are read (enumerator).
"""
