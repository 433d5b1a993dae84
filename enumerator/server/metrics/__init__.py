"""Prometheus metrics of a server.

Belongs here: the catalog of metrics, and how events and gauges set them. Not here: the port that exposes them (`http`).
"""
