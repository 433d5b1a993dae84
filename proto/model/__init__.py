"""The values of the contract: queries, splits, positions, streams, groups, reports.

Belongs here: a frozen value that enumerator, readers and engines share, and `GroupService`. Not here: how a value is
sent or stored (`penstock.proto.codec`). Standard library only, no I/O, no clock.
"""
