"""The enumerator's memory and decisions: a pure state machine over plans and consumer groups.

`step` decides what an event means and changes nothing; `evolve` takes in what was decided. Belongs here: who gets which
split, leases, rounds, resets. Not here: clocks, locks, storage, tables, gRPC.
"""
