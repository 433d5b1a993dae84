"""Control plane: discover, plan, bound, assign, serve.

Decisions (`core`, the planners of `planning`) are pure. Never imports the
reader or the engine.
"""
