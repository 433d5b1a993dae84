"""The checks of `penstock doctor`: this machine, storage, a server.

Belongs here: a check and its result. Not here: how results are printed (`engine.cli.commands.doctor`).
"""
