"""The server process: gRPC handlers around the service, HTTP port, configuration, authentication and metrics.

Belongs here: decoding of requests, calls of the service, encoding of responses. Not here: decisions about groups or
splits.
"""
