"""Reads the tasks of one read side by side, in threads of this process, with bounded memory.

Belongs here: the threads, the batches that wait for their consumer, the choice of their number. Not here: how one task
is read (`engine.read_tasks`).
"""
