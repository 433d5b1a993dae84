"""Settings of a server, and the file that holds them."""
