"""The HFile format of Hudi's metadata table."""
