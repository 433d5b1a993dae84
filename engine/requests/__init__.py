"""Options of a caller to requests: batch, stream, group, hybrid."""
