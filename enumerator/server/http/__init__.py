"""The HTTP ports: metrics, the status page with its data, and the health service.

Belongs here: handlers of HTTP requests. Not here: gRPC calls (`rpc`), metrics themselves (`metrics`).
"""
