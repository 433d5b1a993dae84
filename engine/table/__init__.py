"""The table object of Python programs: `Table`, its lazy `Scan`, and the values that they return.

Not here: how a read is planned and its splits are read (`engine.read_tasks`), options (`engine.requests`).
"""
