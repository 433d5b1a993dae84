"""The columns of the record key in tables without meta columns (virtual keys). Pure.

Source: Hudi `KeyGenUtils`, `HoodieTableConfig.populateMetaFields`. In tables with meta columns, the stored
`_hoodie_record_key` is the key. The reader forms the text of a virtual key.
"""

from __future__ import annotations

from typing import Final

from penstock.proto.errors import TableError
from penstock.table.config.properties import TableProperties
from penstock.table.storage.uris import redacted_uri

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
    """The columns of the record key in a table without meta columns; () for a table with meta columns.

    The key of one column is its text; of several, `<name>:<text>` joined by commas. `a.b` is a nested column.
    TableError for a table without a key column, and for key generators that Hudi does not allow with virtual keys.
    """
    if properties.populate_meta_fields:
        return ()
    fields, keygen = properties.record_key_fields, properties.keygen_name
    where = f"virtual keys (hoodie.populate.meta.fields=false): table {redacted_uri(properties.base_path)}"
    if not fields or keygen not in (*_SIMPLE, *_SEVERAL) or (len(fields) > 1 and keygen in _SIMPLE):
        raise TableError(
            f"{where} has key generator {keygen or '(none)'} for {len(fields)} columns; Hudi allows simple, complex "
            "and non-partitioned key generators for virtual keys"
        )
    return fields


def keys_may_be_named(properties: TableProperties) -> bool:
    """Whether a key of one column may be `<name>:<text>` in deletes of some Hudi releases and `<text>` in others.

    This holds for complex key generators (`hoodie.write.complex.keygen.new.encoding`, which no table records).
    """
    fields = virtual_key_fields(properties)
    return len(fields) == 1 and properties.keygen_name.startswith("COMPLEX")
