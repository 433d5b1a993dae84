"""Record keys of tables without meta columns: which columns a key is made of. Pure.

Source: Hudi `KeyGenUtils`, `HoodieTableConfig.populateMetaFields`. With meta columns the stored `_hoodie_record_key`
always counts and is never made anew. Not here: the key's text (reader).
"""

from __future__ import annotations

from typing import Final

from penstock.proto.errors import UnsupportedFeature
from penstock.table.partition_values import keygen_name
from penstock.table.properties import TableProperties
from penstock.table.storage import shown_uri

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

    One column: its text. Several: `<name>:<text>` joined by commas. UnsupportedFeature for key generators that Hudi
    does not allow here, for none or nested key columns, and for a complex one with a single column: whether its name
    is part of the key depends on the release that wrote it.
    """
    if properties.populate_meta_fields:
        return ()
    fields, keygen = properties.record_key_fields, keygen_name(properties)
    where = f"virtual keys (hoodie.populate.meta.fields=false): table {shown_uri(properties.base_path)}"
    if not fields or any("." in name for name in fields):
        raise UnsupportedFeature(
            f"{where} has key columns {', '.join(fields) or '(none)'}: only top-level ones are read"
        )
    if keygen not in (*_SIMPLE, *_SEVERAL) or (len(fields) > 1 and keygen in _SIMPLE):
        raise UnsupportedFeature(f"{where} has key generator {keygen or '(none)'} for {len(fields)} columns")
    if len(fields) == 1 and keygen.startswith("COMPLEX"):
        raise UnsupportedFeature(
            f"{where} has a complex key generator with the one column {fields[0]!r}: the form of its keys depends on "
            "the release that wrote them"
        )
    return fields
