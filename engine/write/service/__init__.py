"""Writes that a server coordinates, from both sides.

Belongs here: the timeline of a table as the server changes it (`served_timeline`), and the transaction of a writer that
calls the server (`remote_transaction`). Not here: what the server decides (`enumerator.core.writes`).
"""
