"""The store of the service in a state directory, with SQLite.

Belongs here: the database and its rows, the lock of the directory, opening, checks, errors of SQLite. Not here: what
every store does (`penstock.enumerator.store.protocol`), what a record means (`penstock.enumerator.core`).
"""
