"""Mutants of the core, the planner and the merge: small changes of the code, each of which a test must detect."""
