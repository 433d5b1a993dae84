"""`penstock sync`.

Belongs here: the command and its display on a terminal. Not here: what is copied, and how (`engine.sync`).
"""
