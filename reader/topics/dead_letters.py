"""Dead letters: records that cannot be decoded are written to a folder, or are an error if there is none.

A dead letter is a line with a JSON object: topic, partition, offset, timestamp (milliseconds since 1970 UTC, -1: none),
key and value (Base64, or null), reason. Each attempt to read a range writes one file,
`<topic>-<partition>-<first>-<end>.jsonl`, created with its first letter. An attempt from the same offset overwrites the
file, so no record is in it twice. On an object store, where nothing can be appended, the file is written again for each
batch with such records, and continues in `….2.jsonl` at `PART_BYTES`.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import IO, Final, NoReturn, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.kafka.protocols import RecordChunk
from penstock.proto.errors import StorageDenied, StorageError, UndecodableRecord
from penstock.proto.model.hybrid import KafkaAccess, KafkaRange
from penstock.table.storage.filesystem import open_folder, storage_detail
from penstock.table.storage.refusals import refusal_of
from penstock.table.storage.uris import folder_uri, redacted_uri

PART_BYTES: Final = 4 << 20
"""The size at which an object of dead letters is closed."""


class DeadLetters(Protocol):
    """The destination of records that cannot be decoded."""

    def put(self, chunk: RecordChunk, number: int, reason: str) -> None:
        """Adds record `number` of the chunk."""
        ...

    def flush(self) -> None:
        """Afterwards all records put so far survive a crash of this process."""
        ...

    def close(self) -> None:
        """No record is put afterwards."""
        ...


def dead_letters(access: KafkaAccess, topic_range: KafkaRange, first: int, table: str) -> DeadLetters | None:
    """The destination that `access` names, for a read of the range from offset `first`; None: such records are errors.

    ConfigurationError for a folder of a kind that tables cannot be in. No connection is made before the first record.
    """
    folder = access.dead_letter
    if not folder:
        return None
    stem = f"{quote(topic_range.topic, safe='')}-{topic_range.partition}-{first}-{topic_range.end}"
    if not folder_uri(folder, f"table {table}: folder for dead letters"):
        return _Folder(Path(folder), f"{stem}.jsonl", topic_range)
    return _Objects(folder, stem, topic_range)


def undecodable(topic_range: KafkaRange, offset: int, reason: str, table: str) -> UndecodableRecord:
    """The error of a record."""
    return UndecodableRecord(
        f"table {table}: topic {topic_range.topic}, partition {topic_range.partition}, offset {offset}: {reason}; name "
        "a folder for dead letters to skip such records, or write a record that the table's columns can hold"
    )


class _Folder:
    """A file of lines in a local folder."""

    def __init__(self, folder: Path, name: str, topic_range: KafkaRange) -> None:
        self._folder, self._name, self._range = folder, name, topic_range
        self._file: IO[str] | None = None

    def put(self, chunk: RecordChunk, number: int, reason: str) -> None:
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = (self._folder / self._name).open("w", encoding="utf-8")
            self._file.write(_line(self._range, chunk, number, reason))
        except OSError as error:
            self._refuse(error)

    def flush(self) -> None:
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            self._refuse(error)

    def close(self) -> None:
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            self._refuse(error)

    def _refuse(self, error: OSError) -> NoReturn:
        raise StorageError(f"dead letters cannot be written to {self._folder / self._name}: {error.strerror}") from None


class _Objects:
    """Objects of lines in a folder of an object store, each written whole."""

    def __init__(self, folder: str, stem: str, topic_range: KafkaRange) -> None:
        self._folder, self._stem, self._range = folder, stem, topic_range
        self._store: tuple[pafs.FileSystem, str] | None = None
        self._lines: list[bytes] = []
        self._size_bytes = 0
        self._part = 1
        self._is_put = True

    def put(self, chunk: RecordChunk, number: int, reason: str) -> None:
        line = _line(self._range, chunk, number, reason).encode()
        self._lines.append(line)
        self._size_bytes += len(line)
        self._is_put = False
        if self._size_bytes >= PART_BYTES:
            self.flush()
            self._lines, self._size_bytes = [], 0
            self._part += 1

    def flush(self) -> None:
        if self._is_put:
            return
        name = f"{self._stem}.jsonl" if self._part == 1 else f"{self._stem}.{self._part}.jsonl"
        try:
            if self._store is None:
                self._store = open_folder(self._folder, "folder for dead letters")
            filesystem, root = self._store
            if isinstance(filesystem, pafs.LocalFileSystem | pafs.HadoopFileSystem):
                filesystem.create_dir(root)
            with filesystem.open_output_stream(f"{root}/{name}") as written:
                written.write(b"".join(self._lines))
        except (OSError, pa.ArrowException) as error:
            detail = storage_detail(error, self._folder)
            message = f"dead letters cannot be written to {redacted_uri(self._folder).rstrip('/')}/{name}: {detail}"
            if refusal_of(str(error)) is not None:
                raise StorageDenied(f"{message}; give this process the right to write there") from None
            raise StorageError(message) from None
        self._is_put = True

    def close(self) -> None:
        self.flush()


def _line(topic_range: KafkaRange, chunk: RecordChunk, number: int, reason: str) -> str:
    line = {
        "topic": topic_range.topic,
        "partition": topic_range.partition,
        "offset": int(chunk.offsets[number]),
        "timestamp": int(chunk.timestamps_ms[number]),
        "key": _text(chunk.keys[number]),
        "value": _text(chunk.values[number]),
        "reason": reason,
    }
    return json.dumps(line) + "\n"


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
