"""The `penstock` command. Each command has its own file in `commands`. stdout carries data only."""
