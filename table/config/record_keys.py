"""Record keys of tables without meta columns: which columns a key is made of. Pure.

Source: Hudi `KeyGenUtils`, `HoodieTableConfig.populateMetaFields`. With meta columns the stored `_hoodie_record_key`
always counts and is never made anew. Not here: the key's text (reader).
"""

from __future__ import annotations

from typing import Final

from penstock.proto.errors import TableError
from penstock.table.config.properties import TableProperties
from penstock.table.storage.filesystem import redacted_uri

_SIMPLE: Final = ("SIMPLE", "SIMPLE_AVRO", "SIMPLEKEYGENERATOR", "SIMPLEAVROKEYGENERATOR")
_SEVERAL: Final = (
    "COMPLEX",
    "COMPLEX_AVRO",
    "COMPLEXKEYGENERATOR",
    "COMPLEXAVROKEYGENERATOR",
    "NON_PARTITION",
    "NON_PARTITION_AVRO",
    "NONPARTITIONEDKEYGENERATOR",
    "NONPARTITIONEDAVROKEYGENERATOR",
)


def virtual_key_fields(properties: TableProperties) -> tuple[str, ...]:
    """The columns that a record's key is made of in a table without meta columns; () if the table has them.

    One column: its text. Several: `<name>:<text>` joined by commas. `a.b` is a nested one. TableError for no key
    column and for key generators that Hudi does not allow here.
    """
    if properties.populate_meta_fields:
        return ()
    fields, keygen = properties.record_key_fields, properties.keygen_name
    where = f"virtual keys (hoodie.populate.meta.fields=false): table {redacted_uri(properties.base_path)}"
    if not fields or keygen not in (*_SIMPLE, *_SEVERAL) or (len(fields) > 1 and keygen in _SIMPLE):
        raise TableError(
            f"{where} has key generator {keygen or '(none)'} for {len(fields)} columns; Hudi allows simple, complex "
            "and non-partitioned ones here"
        )
    return fields


def keys_may_be_named(properties: TableProperties) -> bool:
    """Whether a key of one column is `<name>:<text>` in deletes of some releases and `<text>` in those of others: it is
    with complex key generators (`hoodie.write.complex.keygen.new.encoding`, which no table records)."""
    fields = virtual_key_fields(properties)
    return len(fields) == 1 and properties.keygen_name.startswith("COMPLEX")
