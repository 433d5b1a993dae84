"""Data files: their names, their listing, and the file slices that they form."""
