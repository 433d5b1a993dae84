"""Tables that Hudi and Penstock write in turn: histories, two writers at once, leftovers of killed writers."""
