"""Formats of base files, by the file's name, and the footers of those that are not Parquet."""

from __future__ import annotations

import pyarrow as pa

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.model.files import FileRef
from penstock.proto.value_classes import dataclass
from penstock.table.lance import is_lance, lance_footer
from penstock.table.orc import is_orc, orc_footer
from penstock.table.parquet.checks import is_storage_failure
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.uris import redacted_uri


@dataclass(frozen=True, slots=True)
class OtherFooter:
    """The footer of a base file that is not Parquet."""

    rows: int
    """The number of rows."""
    names: tuple[str, ...]
    """The top-level columns, in file order."""
    avro_json: str
    """The Avro schema that the writer stored; '' if there is none, as in Lance."""


def is_parquet(path: str) -> bool:
    """Whether a base file is neither ORC nor Lance, by its name."""
    return not is_orc(path) and not is_lance(path)


def read_other_footer(storage: Storage, file: FileRef) -> OtherFooter:
    """The footer of a base file in ORC or Lance.

    CorruptFile if it is missing or has no readable footer; UnsupportedFeature for an unknown version of Lance
    and a compression of ORC that pyarrow does not read; StorageError if the storage failed.
    """
    where = f"base file {file.path} of table {redacted_uri(storage.base_path)}"
    try:
        with storage.open_input(file.path) as source:
            if is_lance(file.path):
                lance = lance_footer(source, where)
                return OtherFooter(lance.rows, lance.names, "")
            orc = orc_footer(source, where)
            return OtherFooter(orc.rows, tuple(orc.schema.names), orc.avro_json)
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although it was there when the folder was listed") from error
    except (pa.ArrowException, OSError) as error:
        detail = str(error).partition("\n")[0][:200]
        if is_storage_failure(error):
            raise StorageError(f"footer of {where} cannot be read: {detail}; a retry may succeed") from error
        kind = "Lance" if is_lance(file.path) else "ORC"
        raise CorruptFile(
            f"{where} has no readable {kind} footer: {detail}; expected {file.size_bytes} bytes"
        ) from error
