"""Catalogs: where a server finds tables while it runs. Adapters list them; the result goes to the `TableRegistry`.

Belongs here: listings, their decisions and their pace. Not here: what a server does with a table.
"""
