"""`penstock demo`: reads a table that real Hudi wrote, and compares the rows with those that Hudi returned."""
