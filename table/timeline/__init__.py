"""The timeline of a table: instants, active and archived, commit metadata, plans of services."""
