"""Mutants of the core: small changes of its code, each of which a test must detect."""
