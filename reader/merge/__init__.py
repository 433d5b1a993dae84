"""Merges log records with base rows: which record of a key wins, and the base file streamed past the winners.

Belongs here: pure, vectorised decisions over Arrow and numpy arrays. Not here: reading files (`base`, `log`). Tests
compare with a slow row-by-row oracle.
"""
