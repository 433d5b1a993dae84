"""The footer of an ORC base file: rows, columns, and the schema of its writer (Hudi `HoodieAvroOrcWriter`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from penstock.proto.errors import UnsupportedFeature
from penstock.proto.value_classes import dataclass
from penstock.table.orc_tail import check_types, orc_tail

_AVRO_SCHEMA: Final = b"orc.avro.schema"
_MOST_ROWS: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class OrcFooter:
    """The footer of an ORC file."""

    rows: int
    """The number of rows."""
    schema: pa.Schema
    """The columns as Arrow types."""
    avro_json: str
    """The Avro schema that the writer stored; '' if there is none."""


def is_orc(path: str) -> bool:
    """Whether the name is that of an ORC file."""
    return path.endswith(".orc")


def orc_footer(source: pa.NativeFile, where: str) -> OrcFooter:
    """The footer of an open file. `where` names the file and the table.

    Errors: UnsupportedFeature for a compression that pyarrow does not read; pa.ArrowException or OSError if the file
    has no readable footer.
    """
    from pyarrow.orc import ORCFile  # loads the library of ORC, which few tables need

    try:
        check_types(orc_tail(source))
        file = ORCFile(source)
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedFeature(
            f"a compression of ORC that pyarrow does not read: {where}: {str(error)[:200]}; let Hudi rewrite the table "
            "with another `hoodie.orc.compression.codec`"
        ) from None
    if not 0 <= file.nrows <= _MOST_ROWS:
        raise pa.ArrowInvalid(f"a footer of {file.nrows} rows, expected at most {_MOST_ROWS}")
    schema = file.schema
    try:
        _decode_names(schema)
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the name of a column or field is not UTF-8: {error}") from None
    stored = (schema.metadata or {}).get(_AVRO_SCHEMA, b"")
    return OrcFooter(int(file.nrows), schema.remove_metadata(), str(stored, "utf-8", "replace"))


def _decode_names(fields: Iterable[pa.Field]) -> None:
    """Decodes every name, of nested fields too, which Arrow does only when it is used. UnicodeDecodeError for one that
    is not UTF-8."""
    for field in fields:
        field.name  # noqa: B018 - it is decoded here
        _decode_names(field.type.field(place) for place in range(field.type.num_fields))
