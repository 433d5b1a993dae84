"""Generated stubs of `penstock.v1`: written by `tools/generate_stubs.py`, compared by a test, never edited."""
