"""The HTTP port: metrics, health and the status page."""
