"""Consumer groups beside the core: discovery of splits, lag, descriptions."""
