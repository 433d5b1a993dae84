"""The sinks of `penstock tail`: they write the batches of a consumer, and commit them.

The delivery guarantee follows from the order of writing and committing. `RowsOnStdout`: at least once. `FilesBySplit`:
exactly once, with one file per split, which has its final name before the commit.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

from penstock.engine.cli.output.rows import RowFormat, write_json_lines, write_rows
from penstock.proto.errors import ConfigurationError, InvariantViolation

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.engine.group.batch import ConsumedBatch
    from penstock.engine.group.reader import GroupReader

TABLE_FIELD: Final = "_penstock_table"
"""The field with the name of the table, in rows of several tables."""
_MAX_NAME_CHARS: Final = 120
_BLOCK_BYTES: Final = 1 << 20


class Stopped(Exception):
    """A stop was requested within a split. Not an error: the unfinished file is discarded."""


class Output(Protocol):
    """A sink: writes a batch, with the further batches that belong to it, and commits what is written."""

    def take(self, batch: ConsumedBatch) -> int:
        """Returns the number of rows written. Stopped: a stop was requested before the split was complete."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether it takes no further batch."""
        ...


class RowsOnStdout:
    """Writes one JSON object per line. A batch is committed after its lines were flushed. At least once: the lines of a
    batch whose commit was lost are written again."""

    def __init__(self, consumer: GroupReader, limit: int | None = None, *, with_table: bool = False) -> None:
        """`limit`: the number of rows after which it is full. A batch that this number cuts is not committed, because a
        position inside a filtered batch is not known: the group hands it out again. `with_table`: each row has the name
        of its table first, as TABLE_FIELD."""
        self._consumer, self._left, self._with_table = consumer, limit, with_table

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._left == 0

    def take(self, batch: ConsumedBatch) -> int:
        """Writes, flushes, commits."""
        rows: int = batch.batch.num_rows
        if self._left is not None:
            rows = min(rows, self._left)
            self._left -= rows
        stream = sys.stdout.buffer
        shown = batch.batch.slice(0, rows)
        write_json_lines(_with_table(shown, batch.table) if self._with_table else shown, stream)
        stream.flush()
        if rows == batch.batch.num_rows:
            self._consumer.commit(batch)
        return rows


def _with_table(batch: pa.RecordBatch, table: str) -> pa.RecordBatch:
    import pyarrow as pa

    names = pa.repeat(pa.scalar(table), batch.num_rows)
    return pa.RecordBatch.from_arrays([names, *batch.columns], names=[TABLE_FIELD, *batch.schema.names])


class FilesBySplit:
    """Writes one file per split, named by the split id, in `folder`; with `by_table` in a folder of each table in it.

    Exactly once: a split is committed after its complete file has its final name, and both are synced to disk. A split
    whose file exists is only committed; ConfigurationError if the file has other columns (Parquet) or another number of
    rows. A split without rows has no file. Hidden files `.….partial` are incomplete.
    """

    def __init__(
        self, consumer: GroupReader, folder: Path, form: RowFormat, ended: Callable[[], bool], *, by_table: bool = False
    ) -> None:
        """`ended`: whether a stop was requested."""
        self._consumer, self._folder, self._form, self._ended = consumer, folder, form, ended
        self._by_table = by_table

    @property
    def is_full(self) -> bool:
        """Never: a folder takes every split."""
        return False

    def take(self, batch: ConsumedBatch) -> int:
        """Writes the whole split that `batch` begins, or skips it if its file exists, and commits it."""
        if batch.start:
            raise ConfigurationError(
                f"split {batch.split_id} starts at row {batch.start}: its first rows were committed by a reader that "
                "does not write one file per split, so the file would lack them. Consume the rest of the group the "
                "same way, or use another group for --output-dir"
            )
        folder = self._folder_of(batch.table) if self._by_table else self._folder
        path = folder / file_name(batch.split_id, self._form)
        rest = _Rest(self._consumer, batch, self._ended)
        if path.is_file():
            for _ in rest.batches():
                pass
            _check_file(path, self._form, batch.batch.schema.names, rest.rows, batch.split_id)
            rows = 0
        else:
            write_rows(batch.batch.schema, rest.batches(), self._form, str(path))
            sync_folder(folder)
            rows = rest.rows
        self._consumer.commit(rest.last)
        return rows

    def _folder_of(self, table: str) -> Path:
        """The folder of a table: copies of a table may have the same split ids."""
        folder = self._folder / _safe_name(table)
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            sync_folder(self._folder)
        return folder


class _Rest:
    """The batches of a split, from its first one on."""

    def __init__(self, consumer: GroupReader, first: ConsumedBatch, ended: Callable[[], bool]) -> None:
        self._consumer, self._ended = consumer, ended
        self.last = first
        self.rows = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield self._counted(self.last)
        while not self.last.end_of_split:
            if self._ended():
                raise Stopped
            next_batch = self._consumer.poll()
            if next_batch is None:  # woken
                continue
            if next_batch.split_id != self.last.split_id or next_batch.first_ordinal < self.last.next_ordinal:
                raise InvariantViolation(
                    f"split {self.last.split_id}: expected its batch from ordinal {self.last.next_ordinal}, got "
                    f"{next_batch.split_id} from {next_batch.first_ordinal}"
                )
            self.last = next_batch
            yield self._counted(next_batch)

    def _counted(self, batch: ConsumedBatch) -> pa.RecordBatch:
        self.rows += batch.batch.num_rows
        return batch.batch


def file_name(split_id: str, form: RowFormat) -> str:
    """The file name of a split: its id, escaped for any file system. Distinct ids have distinct names."""
    return f"{_safe_name(split_id)}.{form.value}"


def _safe_name(text: str) -> str:
    safe = quote(text, safe="").replace(".", "%2E").replace("~", "%7E")
    if len(safe) > _MAX_NAME_CHARS:
        safe = f"{safe[:_MAX_NAME_CHARS]}-{hashlib.sha256(text.encode()).hexdigest()}"
    return safe


def _check_file(path: Path, form: RowFormat, columns: list[str], rows: int, split_id: str) -> None:
    """Raises ConfigurationError if the existing file cannot be the file of the split."""
    if form is RowFormat.PARQUET:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            metadata = pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise ConfigurationError(
                f"{path}: not a Parquet file ({error}): remove it, and it is written again"
            ) from error
        actual_rows, actual_columns = metadata.num_rows, list(metadata.schema.to_arrow_schema().names)
    else:
        with path.open("rb") as file:
            actual_rows, actual_columns = (
                sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK_BYTES), b"")),
                columns,
            )
    if (actual_rows, actual_columns) != (rows, columns):
        raise ConfigurationError(
            f"{path}: the file of split {split_id} has {actual_rows} rows of columns "
            f"{', '.join(actual_columns)[:300]}, expected {rows} of {', '.join(columns)[:300]}: it was written "
            "with another filter or other columns. Give another folder, or remove the file, and it is written again"
        )


def sync_folder(folder: Path) -> None:
    """Syncs the names of the files in the folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checked_folder(text: str) -> Path:
    """The folder of `--output-dir`, created if it does not exist. ConfigurationError: it cannot be created or used."""
    path = Path(os.path.realpath(text))
    try:
        path.mkdir(exist_ok=True)
        writable = os.access(path, os.W_OK | os.X_OK)
    except OSError as error:
        raise ConfigurationError(
            f"--output-dir {text}: {error.strerror}: give a folder, or create its parent"
        ) from error
    if not writable:
        raise ConfigurationError(f"--output-dir {text}: this user may not write there: give another folder")
    return path
