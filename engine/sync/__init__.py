"""`penstock sync`: keeps tables of another system equal to Hudi tables.

Belongs here: the job file, the tables that it names, the changes of a table, and the targets. Not here: how changes are
planned and read (`engine.read_tasks`), options of streams (`engine.requests`).
"""
