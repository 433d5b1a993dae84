"""Where `penstock tail` puts what a consumer hands out, and when that is committed.

Belongs here: the order of writing and committing, which is what a user is promised. `RowsOnStdout`: at least once.
`FilesBySplit`: exactly once, a file a split, which has its final name before the commit. Not here: forms of rows
(`output`), pulling (`penstock.engine.group.reader`).
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

    from penstock.engine.group.reader import ConsumedBatch, GroupReader

_MAX_NAME_CHARS: Final = 120
_BLOCK_BYTES: Final = 1 << 20


class Stopped(Exception):
    """A stop was requested within a split: not an error; the unfinished file is discarded."""


class Output(Protocol):
    """Takes a batch that was handed out, and whatever follows that belongs to it; commits what is safe."""

    def take(self, batch: ConsumedBatch) -> int:
        """Rows that were written. Stopped: a stop was requested before the split was complete."""
        ...


class RowsOnStdout:
    """A JSON object a line; a batch is committed when its lines were given to the system. At least once: lines of a
    batch whose commit was lost come again."""

    def __init__(self, consumer: GroupReader) -> None:
        self._consumer = consumer

    def take(self, batch: ConsumedBatch) -> int:
        """Writes, flushes, commits."""
        stream = sys.stdout.buffer
        write_json_lines(batch.batch, stream)
        stream.flush()
        self._consumer.commit(batch)
        rows: int = batch.batch.num_rows
        return rows


class FilesBySplit:
    """A file a split, named by the split's id, in `folder`. Exactly once: a split is committed when its whole file is
    under its name and both are on the disk; a split whose file is there already is only committed, if the file has the
    split's columns (Parquet) and as many rows, else a ConfigurationError.

    A split without rows has no file. Hidden files `.….partial` are what was begun and not ended.
    """

    def __init__(self, consumer: GroupReader, folder: Path, form: RowFormat, ended: Callable[[], bool]) -> None:
        """`ended`: whether a stop was requested."""
        self._consumer, self._folder, self._form, self._ended = consumer, folder, form, ended

    def take(self, batch: ConsumedBatch) -> int:
        """The split that `batch` begins: written whole, or skipped, and committed."""
        if batch.start:
            raise ConfigurationError(
                f"split {batch.split_id} was handed out from row {batch.start} on: its first rows were committed by a "
                "reader that does not write a file a split, so a file would lack them. Consume the rest of the group "
                "the same way, or take another group for --output-dir"
            )
        path = self._folder / file_name(batch.split_id, self._form)
        rest = _Rest(self._consumer, batch, self._ended)
        if path.is_file():
            for _ in rest.batches():
                pass
            _check_file(path, self._form, batch.batch.schema.names, rest.rows, batch.split_id)
            rows = 0
        else:
            write_rows(batch.batch.schema, rest.batches(), self._form, str(path))
            sync_folder(self._folder)
            rows = rest.rows
        self._consumer.commit(rest.last)
        return rows


class _Rest:
    """The batches of a split from its first one on."""

    def __init__(self, consumer: GroupReader, first: ConsumedBatch, ended: Callable[[], bool]) -> None:
        self._consumer, self._ended = consumer, ended
        self.last = first
        self.rows = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield self._counted(self.last)
        while not self.last.end_of_split:
            if self._ended():
                raise Stopped
            following = self._consumer.poll()
            if following is None:  # woken
                continue
            if following.split_id != self.last.split_id or following.first_ordinal < self.last.next_ordinal:
                raise InvariantViolation(
                    f"split {self.last.split_id}: behind ordinal {self.last.next_ordinal} came {following.split_id} "
                    f"from {following.first_ordinal}"
                )
            self.last = following
            yield self._counted(following)

    def _counted(self, batch: ConsumedBatch) -> pa.RecordBatch:
        self.rows += batch.batch.num_rows
        return batch.batch


def file_name(split_id: str, form: RowFormat) -> str:
    """The file of a split: its id, made safe for any file system, one name an id."""
    safe = quote(split_id, safe="").replace(".", "%2E").replace("~", "%7E")
    if len(safe) > _MAX_NAME_CHARS:
        safe = f"{safe[:_MAX_NAME_CHARS]}-{hashlib.sha256(split_id.encode()).hexdigest()}"
    return f"{safe}.{form.value}"


def _check_file(path: Path, form: RowFormat, columns: list[str], rows: int, split_id: str) -> None:
    """Whether the file that is there can be the split's."""
    if form is RowFormat.PARQUET:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            metadata = pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise ConfigurationError(f"{path}: no Parquet file ({error}): remove it to have it written anew") from error
        has, there = metadata.num_rows, list(metadata.schema.to_arrow_schema().names)
    else:
        with path.open("rb") as file:
            has, there = sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK_BYTES), b"")), columns
    if (has, there) != (rows, columns):
        raise ConfigurationError(
            f"{path}: the file of split {split_id} has {has} rows of columns {', '.join(there)[:300]}, expected {rows} "
            f"of {', '.join(columns)[:300]}: it was written with another filter or other columns. Give another folder, "
            "or remove the file to have it written anew"
        )


def sync_folder(folder: Path) -> None:
    """Names of the folder's files are on the disk when it returns."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checked_folder(text: str) -> Path:
    """The folder for a file a split, made if it is not there. ConfigurationError if there cannot be one."""
    path = Path(os.path.realpath(text))
    try:
        path.mkdir(exist_ok=True)
        writable = os.access(path, os.W_OK | os.X_OK)
    except OSError as error:
        raise ConfigurationError(f"--output-dir {text}: {error.strerror}: give a folder, or make its parent") from error
    if not writable:
        raise ConfigurationError(f"--output-dir {text}: this user may not write there: give another folder")
    return path
