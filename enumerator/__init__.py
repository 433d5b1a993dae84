"""Control plane: discover, plan, bound, assign, serve.

Decisions (`order`, `planner`, `assigner`) are pure; I/O is in `discovery`, `bounds` and `server`. Never imports the
reader or the engine.
"""
