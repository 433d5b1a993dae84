"""Seeded schedules of the enumerator's decisions with a model table, readers, a network and faults, and the
invariants of each schedule. `simulated_world` assembles the parts; `checkers` defines the invariants;
`python -m tests.simulation.replay_seed SEED` repeats one schedule and prints its trace.
"""
