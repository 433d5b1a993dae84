"""Tables in Spark's SQL: tables of the catalog, views of many tables, and table-valued functions."""
