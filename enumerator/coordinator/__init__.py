"""The coordinator: one lock around the core, the journal and the plans that it holds."""
