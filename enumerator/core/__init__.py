"""State and decisions of the enumerator: a pure state machine over plans and consumer groups.

`decide` makes a decision about an event and changes nothing; `apply` applies its records to the state. Belongs here:
assignment of splits, leases, rounds, resets. Not here: clocks, locks, storage, tables, gRPC.
"""
