"""Other engines that read tables through Penstock: Polars, DuckDB, Ray Data, Daft."""
