"""Read the footer of a base file from the table's storage."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.model.files import FileRef
from penstock.table.parquet.checks import ParquetError, check_rows, check_statistics, is_storage_failure
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.uris import redacted_uri


def read_base_footer(storage: Storage, file: FileRef) -> pq.FileMetaData:
    """Read and check the Parquet footer of a base file.

    CorruptFile if the file is missing or has no readable footer; StorageError if the storage failed.
    """
    where = f"base file {file.path} of table {redacted_uri(storage.base_path)}"
    try:
        with storage.open_input(file.path) as source:
            check_statistics(source)
            footer = pq.read_metadata(source)
            check_rows(footer)
            return footer
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although it was there when the folder was listed") from error
    except (pa.ArrowException, ParquetError, OSError) as error:
        detail = str(error).partition("\n")[0][:200]
        if is_storage_failure(error):
            raise StorageError(f"footer of {where} cannot be read: {detail}; a retry may succeed") from error
        raise CorruptFile(
            f"{where} has no readable Parquet footer: {detail}; expected {file.size_bytes} bytes"
        ) from error
