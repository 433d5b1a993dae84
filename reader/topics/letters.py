"""Records that cannot be decoded: an error, or a line in a folder.

A line is a JSON object: topic, partition, offset, timestamp (milliseconds since 1970 UTC, -1: none), key and value
(Base64, or null), reason. One file an attempt to read a range, `<topic>-<partition>-<first>-<end>.jsonl`, made when the
first is written: an attempt from the same offset writes it anew, so nothing is there twice.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import IO, NoReturn, Protocol
from urllib.parse import quote

from penstock.kafka.doors import RecordChunk
from penstock.proto.errors import ConfigurationError, StorageError, UndecodableRecord
from penstock.proto.hybrid import KafkaAccess, KafkaRange


class DeadLetters(Protocol):
    """Where records go that cannot be decoded."""

    def put(self, chunk: RecordChunk, number: int, reason: str) -> None:
        """Record `number` of the chunk."""
        ...

    def flush(self) -> None:
        """What was put is on storage afterwards, as far as a crash of this process goes."""
        ...

    def close(self) -> None:
        """Nothing is put afterwards."""
        ...


def dead_letters(access: KafkaAccess, wanted: KafkaRange, first: int, table: str) -> DeadLetters | None:
    """Where `access` puts them, for a read of the range from offset `first`; None: they are errors.

    ConfigurationError for a folder that is no local path.
    """
    folder = access.dead_letter
    if not folder:
        return None
    if "://" in folder:
        raise ConfigurationError(
            f"table {table}: dead letters go to a local folder, got {folder.partition('://')[0]}://…"
        )
    name = f"{quote(wanted.topic, safe='')}-{wanted.partition}-{first}-{wanted.end}.jsonl"
    return _Folder(Path(folder), name, wanted)


def undecodable(wanted: KafkaRange, offset: int, reason: str, table: str) -> UndecodableRecord:
    """The error of a record."""
    return UndecodableRecord(
        f"table {table}: topic {wanted.topic}, partition {wanted.partition}, offset {offset}: {reason}; name a folder "
        "for dead letters to pass such records over, or write a record that the table's columns can hold"
    )


class _Folder:
    """A file of lines in a local folder."""

    def __init__(self, folder: Path, name: str, wanted: KafkaRange) -> None:
        self._folder, self._name, self._range = folder, name, wanted
        self._file: IO[str] | None = None

    def put(self, chunk: RecordChunk, number: int, reason: str) -> None:
        line = {
            "topic": self._range.topic,
            "partition": self._range.partition,
            "offset": int(chunk.offsets[number]),
            "timestamp": int(chunk.timestamps_ms[number]),
            "key": _text(chunk.keys[number]),
            "value": _text(chunk.values[number]),
            "reason": reason,
        }
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = (self._folder / self._name).open("w", encoding="utf-8")
            self._file.write(json.dumps(line) + "\n")
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


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
