"""Log files: blocks, the records that count, damage."""
