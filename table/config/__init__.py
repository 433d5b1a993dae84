"""`hoodie.properties`: typed fields, merge rules, payload classes, record keys.

Belongs here: the meaning of a table's settings. Not here: partition values, schemas, options of a query.
"""
