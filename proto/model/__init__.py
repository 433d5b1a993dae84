"""Values that the contract carries: queries, splits, positions, groups, reports. Frozen, standard library only."""
