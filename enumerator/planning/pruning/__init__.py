"""Pruning: the partitions and file groups that a request's filter excludes before they are listed or opened.

Belongs here: what the planner excludes, by partition, key and statistics (`groups` has the order). Not here: row groups
and pages, which the reader excludes by footers that it opens anyway.
"""
