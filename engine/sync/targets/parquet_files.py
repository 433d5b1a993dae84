"""The files of a table of Parquet files, in a local folder or an object store."""

from __future__ import annotations

import fcntl
import os
import pathlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from penstock.proto.errors import TargetUnavailable
from penstock.table.storage.filesystem import open_folder, sends_tokens

_ROW_GROUP_ROWS: Final = 128 * 1024


class Files(Protocol):
    """The files of one folder. Paths are relative to it. OSError for what the storage refuses."""

    def read(self, path: str) -> bytes | None:
        """The content; None: there is no such file."""
        ...

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        """The rows of a Parquet file."""
        ...

    def write(self, path: str, columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
        """Writes a Parquet file, which does not exist, and makes it durable. Returns its rows and its size in bytes."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Writes a file, durably: a reader sees the old content or the new one."""
        ...

    def list(self, folder: str) -> list[str]:
        """The paths of the files in a folder."""
        ...

    def delete(self, path: str) -> None:
        """Removes a file, if it exists."""
        ...

    def locked(self) -> Any:
        """A context in which no other process writes the folder. TargetUnavailable: another one does."""
        ...


class LocalFiles:
    """A local folder, which is created when it is needed."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def read(self, path: str) -> bytes | None:
        try:
            return (self._folder / path).read_bytes()
        except FileNotFoundError:
            return None

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self._folder / path) as file:
            yield from file.iter_batches()

    def write(self, path: str, columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            rows = _write_batches(stream, columns, batches)
            stream.flush()
            os.fsync(stream.fileno())
        _sync_folder(target.parent)
        return rows, target.stat().st_size

    def replace(self, path: str, content: bytes) -> None:
        temporary = self._folder / f"{path}.new"
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self._folder / path)
        _sync_folder(self._folder)
        _sync_folder(self._folder.parent)

    def list(self, folder: str) -> list[str]:
        if not (self._folder / folder).is_dir():
            return []
        return [f"{folder}/{one.name}" for one in (self._folder / folder).iterdir()]

    def delete(self, path: str) -> None:
        (self._folder / path).unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("wb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise TargetUnavailable(f"{self._folder}: another process writes the table") from error
            yield


class StoredFiles:
    """A folder of an object store. It has no lock: one process may write it."""

    def __init__(self, uri: str) -> None:
        """Credentials are in the environment. Errors as `open_folder`."""
        self._files, self._folder = open_folder(uri, "target")
        self._queries_first = sends_tokens(uri)

    def read(self, path: str) -> bytes | None:
        try:
            with self._opened(path) as stream:
                return bytes(stream.readall())
        except FileNotFoundError:
            return None

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        with self._opened(path) as stream, pq.ParquetFile(stream) as file:
            yield from file.iter_batches()

    def write(self, path: str, columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
        with self._files.open_output_stream(f"{self._folder}/{path}") as stream:
            rows = _write_batches(stream, columns, batches)
        return rows, self._files.get_file_info(f"{self._folder}/{path}").size

    def replace(self, path: str, content: bytes) -> None:
        # S3: pyarrow writes every object as a multipart upload, which its last request makes visible at once; after a
        # failed part it does not send this request, also when the stream is closed
        with self._files.open_output_stream(f"{self._folder}/{path}") as stream:
            stream.write(content)

    def list(self, folder: str) -> list[str]:
        selector = pafs.FileSelector(f"{self._folder}/{folder}", allow_not_found=True)
        return [f"{folder}/{one.base_name}" for one in self._files.get_file_info(selector)]

    def delete(self, path: str) -> None:
        try:
            self._files.delete_file(f"{self._folder}/{path}")
        except FileNotFoundError:
            return

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield

    def _opened(self, path: str) -> pa.NativeFile:
        place = f"{self._folder}/{path}"
        if self._queries_first:  # see `ArrowStorage`: otherwise pyarrow ends the process if there is no token
            self._files.get_file_info(place)
        return self._files.open_input_file(place)


def _write_batches(stream: Any, columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes row groups of about `_ROW_GROUP_ROWS` rows. Returns the rows."""
    rows, held, held_rows = 0, list[pa.RecordBatch](), 0
    with pq.ParquetWriter(stream, columns, compression="zstd") as writer:
        for batch in batches:
            held.append(batch)
            held_rows += batch.num_rows
            rows += batch.num_rows
            if held_rows >= _ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held, columns))
                held, held_rows = [], 0
        if held_rows:
            writer.write_table(pa.Table.from_batches(held, columns))
    return rows


def _sync_folder(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
