"""File systems: listing, exact reads, and what their refusals mean."""
