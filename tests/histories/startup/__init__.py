"""What Python loads at the start of processes that record their calls; see `tests.histories`."""
