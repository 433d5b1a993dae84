"""TLS, tokens and rights."""
