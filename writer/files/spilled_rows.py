"""Rows of a write in a temporary local file, so that memory does not grow with them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from penstock.proto.errors import StorageError
from penstock.writer.rows.keyed_rows import compacted


class SpilledRows:
    """Rows by part, a number. For one thread, and a context whose end removes the file; so does the process's end,
    whatever ends it, because the file has no name.

    Memory: the rows of one `add`, and a few bytes for each of its parts. StorageError if the temporary folder is full.
    """

    def __init__(self, schema: pa.Schema, where: str) -> None:
        """schema: of the rows, without dictionaries. where: the beginning of error texts."""
        self.schema = schema
        """The columns of the rows."""
        self._where = where
        self._batches: dict[int, list[int]] = {}
        self._rows: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._count = 0
        self._reader: pyarrow.ipc.RecordBatchFileReader | None = None
        with self._storage_errors():
            self._file = tempfile.TemporaryFile(prefix="penstock-write-")  # noqa: SIM115  it is open until the end
            options = pyarrow.ipc.IpcWriteOptions(compression="lz4")
            self._writer = pyarrow.ipc.new_file(pa.PythonFile(self._file, mode="w"), schema, options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def parts(self) -> Iterable[int]:
        """The parts that have rows."""
        return self._batches.keys()

    def num_rows(self, part: int) -> int:
        """How many rows a part has."""
        return self._rows.get(part, 0)

    def size_bytes(self, part: int) -> int:
        """The memory that the rows of a part take."""
        return self._bytes.get(part, 0)

    def add(self, rows: pa.Table, parts: np.ndarray) -> None:
        """Adds rows; `parts` has the part of each. Not after the first read."""
        begin = 0
        for batch in rows.to_batches():
            self._add(batch, parts[begin : begin + batch.num_rows])
            begin += batch.num_rows

    def table(self, parts: Iterable[int]) -> pa.Table:
        """The rows of these parts, part after part, each in the order in which they were added."""
        return compacted((batch for part in parts for batch in self.batches(part)), self.schema)

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part, in the order in which they were added."""
        for number in self._batches.get(part, ()):
            with self._storage_errors():
                batch = self._opened().get_batch(number)
            yield batch

    def _add(self, batch: pa.RecordBatch, parts: np.ndarray) -> None:
        order = np.argsort(parts, kind="stable")
        distinct, starts = np.unique(parts[order], return_index=True)
        ordered = batch.take(pa.array(order)) if len(distinct) > 1 else batch
        for part, begin, end in zip(distinct.tolist(), starts, [*starts[1:], len(order)], strict=True):
            some = ordered.slice(begin, end - begin)
            with self._storage_errors():
                self._writer.write_batch(some)
            self._batches.setdefault(part, []).append(self._count)
            self._rows[part] = self.num_rows(part) + some.num_rows
            self._bytes[part] = self.size_bytes(part) + some.nbytes
            self._count += 1

    def _opened(self) -> pyarrow.ipc.RecordBatchFileReader:
        if self._reader is None:
            self._writer.close()
            self._reader = pyarrow.ipc.open_file(pa.PythonFile(self._file, mode="r"))
        return self._reader

    @contextlib.contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"{self._where}: the data does not fit in memory, and cannot be kept in the temporary folder "
                f"{tempfile.gettempdir()}: {str(error)[:200]}; it needs room for all of the data: set TMPDIR to a "
                "folder with more; nothing was written"
            ) from error


def pieces_of(rows: SpilledRows, parts: Iterable[int], most_bytes: int) -> Iterator[list[int]]:
    """The parts in their order, together as long as they have at most so many bytes."""
    held: list[int] = []
    held_bytes = 0
    for part in parts:
        size = rows.size_bytes(part)
        if held and held_bytes + size > most_bytes:
            yield held
            held, held_bytes = [], 0
        held.append(part)
        held_bytes += size
    if held:
        yield held
