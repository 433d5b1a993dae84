"""What the clients of a test asked and were answered, and an offline checker of it."""
