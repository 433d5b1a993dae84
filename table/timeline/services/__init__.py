"""Plans and metadata of table services: compactions, clusterings, cleans, rollbacks, savepoints, restores.

Belongs here: the contents of their timeline files, decoded and encoded. Not here: what a service does (`writer`).
"""
