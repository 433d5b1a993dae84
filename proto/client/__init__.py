"""The gRPC client: a channel, its certificates, and the calls of plans and of groups."""
