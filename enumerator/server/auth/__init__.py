"""TLS, tokens, callers and access rules."""
