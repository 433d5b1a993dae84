"""`hoodie.properties` and what follows from them: merge rules, payload classes, record keys."""
