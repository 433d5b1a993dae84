"""JSON records of a topic as columns: in bulk by compiled kernels, or one by one, with equal results."""
