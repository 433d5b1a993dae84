"""The gRPC shell: handlers that decode, call, encode. No decision belongs here."""
