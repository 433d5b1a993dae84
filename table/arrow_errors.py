"""Failures of Arrow, and of memory, as named errors: the one place for what no decoder names itself.

A decoder that can say which file is damaged does so. What is left is named here, where a read or a question about a
table begins: no failure of a table's bytes leaves reader or planner as pyarrow's own class. Not here: errors of a
storage's calls (`storage`), bugs, which stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from penstock.proto.errors import FormatError, OutOfMemory, PenstockError, StorageError
from penstock.table.parquet.checks import is_storage_failure
from penstock.table.storage.filesystem import redacted_uri, storage_detail

_T = TypeVar("_T")
_Self = TypeVar("_Self")
_P = ParamSpec("_P")


@contextmanager
def translated_errors(where: str) -> Iterator[None]:
    """Within it, what Arrow and the allocator raise is raised as `translated_error` says."""
    try:
        yield
    except (MemoryError, pa.ArrowException, OSError) as error:
        raise translated_error(error, where) from error


def translated_error(error: BaseException, where: str) -> PenstockError:
    """OutOfMemory, also for more than Arrow can hold in one column; StorageError for a store that fails; else
    FormatError. `where` begins the text: table, split, or what was asked."""
    text = f"{where}: {type(error).__name__}: {storage_detail(error)}"
    if isinstance(error, MemoryError):
        return OutOfMemory(
            f"{text}: the process has not the memory for it; read fewer columns or smaller batches, or give it more"
        )
    if isinstance(error, pa.ArrowCapacityError):
        return OutOfMemory(f"{text}: a column of one batch is larger than Arrow can hold; leave the column out")
    if isinstance(error, Exception) and is_storage_failure(error):
        return StorageError(f"{text}; asking again may help")
    return FormatError(f"{text}: bytes of the table are not what its format says; restore the file, or report it")


def with_translated_errors(batches: Generator[_T, None, None], where: str) -> Generator[_T, None, None]:
    """The same batches; failures of making them as `translated_errors`. Closing it closes them."""
    with translated_errors(where):
        yield from batches


def translates_errors(
    method: Callable[Concatenate[_Self, str, _P], _T],
) -> Callable[Concatenate[_Self, str, _P], _T]:
    """A method whose first argument is the path of a table, with `translated_errors`."""

    @wraps(method)
    def named(self: _Self, path: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with translated_errors(f"table {redacted_uri(path)}"):
            return method(self, path, *args, **kwargs)

    return named
