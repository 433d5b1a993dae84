"""The record keys to which a filter restricts a table's rows. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from penstock.table.config.properties import TableProperties
from penstock.table.predicate.equalities import equal_values

if TYPE_CHECKING:
    from penstock.table.predicate.tree import Predicate

RECORD_KEY: Final = "_hoodie_record_key"

_PLAIN_KEYS: Final = (
    "SIMPLE",
    "SIMPLE_AVRO",
    "SIMPLEKEYGENERATOR",
    "SIMPLEAVROKEYGENERATOR",
    "NON_PARTITION",
    "NON_PARTITION_AVRO",
    "NONPARTITIONEDKEYGENERATOR",
    "NONPARTITIONEDAVROKEYGENERATOR",
    "TIMESTAMP",
    "TIMESTAMP_AVRO",
    "TIMESTAMPBASEDKEYGENERATOR",
    "TIMESTAMPBASEDAVROKEYGENERATOR",
)
"""Key generators with which a key of one column is the column's text. A complex one may write `<name>:<text>`."""


def required_keys(
    row_filter: Predicate, properties: TableProperties, path_fields: Collection[str]
) -> frozenset[str] | None:
    """The keys one of which each row has that matches the filter; None if the filter does not say.

    The filter names them by `_hoodie_record_key`, or by the one column of the key, if that is a text or a whole number
    and stored in the files (it is not one of `path_fields`).
    """
    stored = equal_values(row_filter, RECORD_KEY)
    keys = None if stored is None else frozenset(map(str, stored))
    fields = properties.record_key_fields
    if len(fields) != 1 or fields[0] in path_fields or properties.keygen_name not in _PLAIN_KEYS:
        return keys
    values = equal_values(row_filter, fields[0])
    if values is None or "" in values:  # writers may store an empty text in another form
        return keys
    texts = frozenset(map(str, values))
    return texts if keys is None else keys & texts
