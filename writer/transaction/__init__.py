"""One write of a table as Hudi's timeline records it: its instant, lock, markers, heartbeat, completion, rollback.

Belongs here: the steps of a transaction and their order. Not here: the content of data files.
"""
