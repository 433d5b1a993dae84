"""Values of hybrid reads as messages of `penstock.v1` and as JSON, and the checks of decoded ones."""
