"""The footer of an ORC base file: rows, columns, and the schema of its writer (Hudi `HoodieAvroOrcWriter`)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

<<<<<<< HEAD
=======
from penstock.proto.errors import CorruptFile, StorageError, UnsupportedFeature
from penstock.proto.model.files import FileRef
>>>>>>> S2
from penstock.proto.value_classes import dataclass

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
        file = ORCFile(source)
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedFeature(
            f"a compression of ORC that pyarrow does not read: {where}: {str(error)[:200]}; let Hudi rewrite the table "
            "with another `hoodie.orc.compression.codec`"
        ) from None
    if not 0 <= file.nrows <= _MOST_ROWS:
        raise pa.ArrowInvalid(f"a footer of {file.nrows} rows, expected at most {_MOST_ROWS}")
    schema = file.schema
    stored = (schema.metadata or {}).get(_AVRO_SCHEMA, b"")
    return OrcFooter(int(file.nrows), schema.remove_metadata(), str(stored, "utf-8", "replace"))
<<<<<<< HEAD
=======


def read_orc_footer(storage: Storage, file: FileRef) -> OrcFooter:
    """The footer of a base file.

    CorruptFile if it is missing or not ORC; StorageError if the storage failed; UnsupportedFeature as `orc_footer`.
    """
    where = f"base file {file.path} of table {redacted_uri(storage.base_path)}"
    try:
        with storage.open_input(file.path) as source:
            return orc_footer(source, where)
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although it was there when the folder was listed") from error
    except (pa.ArrowException, OSError) as error:
        detail = str(error).partition("\n")[0][:200]
        if is_storage_failure(error):
            raise StorageError(f"footer of {where} cannot be read: {detail}; a retry may succeed") from error
        raise CorruptFile(f"{where} has no readable ORC footer: {detail}; expected {file.size_bytes} bytes") from error
>>>>>>> S2
