"""`penstock demo`: the main job on a table that real Hudi wrote, its answers compared with the rows Hudi returned."""
