"""Seeded schedules of the enumerator's decisions with a model table, readers, a network and faults, and
what must hold in each of them. `simulated_world` puts the parts together; `checkers` says what must hold;
`python -m tests.simulation.replay_seed SEED` runs one schedule again and tells all that happened.
"""
