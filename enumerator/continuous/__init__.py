"""Continuous discovery: rounds of new data after a progress, their limits, and the checks that no instant is skipped.

Belongs here: rounds, limits, late and vanished instants, lost ranges, lag and time to loss. Not here: which splits a
range has (`planning`), consumer groups and readers (`core`, `groups`).
"""
