"""Write transactions as a service: the coordinator's decisions, carried out on the timelines of tables.

Belongs here: the order of decisions and work on a timeline, and what goes on after a restart. Not here: the decisions
(`core.writes`) and the timeline's files: a `TableTimeline` is given by whoever runs the server.
"""
