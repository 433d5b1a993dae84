"""`penstock compact`, `cluster`, `clean`, `archive`, `savepoint`, `restore`.

Belongs here: the commands. Not here: what a service does (`engine.table_services`).
"""
