"""Discovery and planning: a request and the state of a table become a plan."""
