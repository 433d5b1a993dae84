"""TPC-H: its tables, the refresh functions and the 22 queries, for the tests and benches of writes from Spark."""
