"""Translates Arrow and memory errors into Penstock errors, at the entry points of reader and planner.

A decoder that can name the damaged file raises its own error. The rest is translated here, so that reader and planner
never raise a class of pyarrow for the bytes of a table. `table.storage` translates errors of storage calls. Programming
errors are not translated.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import pyarrow as pa

from penstock.proto.errors import FormatError, OutOfMemory, PenstockError, StorageError
from penstock.table.parquet.checks import is_storage_failure
from penstock.table.storage.filesystem import storage_detail
from penstock.table.storage.uris import redacted_uri

_T = TypeVar("_T")


@contextmanager
def translated_errors(where: str) -> Iterator[None]:
    """Raises errors of Arrow and of the memory allocator as `translated_error`."""
    try:
        yield
    except (MemoryError, pa.ArrowException, OSError) as error:
        raise translated_error(error, where) from error


def translated_error(error: BaseException, where: str) -> PenstockError:
    """OutOfMemory, also for a column beyond Arrow's limits; StorageError for a storage failure; else FormatError.

    `where` begins the text: the table, the split, or the request.
    """
    text = f"{where}: {type(error).__name__}: {storage_detail(error)}"
    if isinstance(error, MemoryError):
        return OutOfMemory(
            f"{text}: the process has not enough memory; read fewer columns or smaller batches, or give it more memory"
        )
    if isinstance(error, pa.ArrowCapacityError):
        return OutOfMemory(f"{text}: a column of one batch is larger than Arrow can hold; leave the column out")
    if isinstance(error, Exception) and is_storage_failure(error):
        return StorageError(f"{text}; a retry may succeed")
    return FormatError(f"{text}: bytes of the table do not follow its format; restore the file, or report the error")


def with_translated_errors(batches: Generator[_T, None, None], where: str) -> Generator[_T, None, None]:
    """The same batches, with errors as by `translated_errors`. Closing the result closes `batches`."""
    with translated_errors(where):
        yield from batches


def errors_of_table(path: str) -> AbstractContextManager[None]:
    """`translated_errors` of the table at `path`."""
    return translated_errors(f"table {redacted_uri(path)}")
