"""gRPC handlers, the interceptor before them, and their limits."""
