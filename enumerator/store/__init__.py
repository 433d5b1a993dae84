"""The durable state of the service: records in order, and the splits of plans. It never holds data of a user's table.

Belongs here: the interface of a store, the journal that groups the commits of many callers, and one folder for each
store. Not here: what a record means (`penstock.enumerator.core`).
"""
