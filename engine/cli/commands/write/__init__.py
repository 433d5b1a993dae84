"""`penstock create`, `penstock write`, `penstock rollback`.

Belongs here: the commands. Not here: how a table is written (`engine.write`).
"""
