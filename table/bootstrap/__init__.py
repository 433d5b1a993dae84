"""Bootstrapped tables: the index of their source files, and the folder of these.

Belongs here: what `hoodie.bootstrap.base.path` and the index say. Not here: reading rows (`penstock.reader.base`).
"""
