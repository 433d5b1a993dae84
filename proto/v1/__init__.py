"""Generated stubs of `penstock.v1`: written by `make proto`, compared by a test, never edited."""
