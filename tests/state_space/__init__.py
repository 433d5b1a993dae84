"""Exhaustive search: every state that the real core can reach in a small scope, each fault at each moment."""
