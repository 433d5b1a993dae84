"""Encodes records of the partition `files`: which files an instant added to partitions and deleted from them. Pure.

Source: Hudi `HoodieMetadataPayload`, `HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords`. `records` and
`files` decode them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro

from penstock.proto.errors import CorruptFile, InvariantViolation, TableError
from penstock.table.hfile.encoder import encode_hfile
from penstock.table.metadata.files import ALL_PARTITIONS, files_key
from penstock.table.timeline.avro_container import DECODING_ERRORS, bounded_schema

_PARTITIONS: Final = 1
_FILES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """What changed in a partition of the data table."""

    partition: str
    """Partition path."""
    added: Mapping[str, int] = field(default_factory=dict)
    """Name -> exact size in bytes of each file that was added."""
    deleted: frozenset[str] = frozenset()
    """Names of the files that were deleted."""
    is_deleted: bool = False
    """Whether the partition itself was deleted, with all its files, which `deleted` names."""


def encode_changes(changes: Iterable[PartitionFiles], schema_json: str, where: str) -> bytes:
    """The HFile with the records of these changes. Changes of one partition are joined.

    schema_json: of records with meta columns (`record_schema.block_schema`). The file has it too, as Hudi's have.
    InvariantViolation for a file without bytes, which Hudi refuses; CorruptFile for a schema of other records;
    TableError for a partition whose path is a reserved key.
    """
    names: dict[str, dict[str, object]] = {}
    partitions: dict[str, object] = {}
    for change in changes:
        key = files_key(change.partition)
        if change.added or change.is_deleted:
            partitions[key] = _file(0, is_deleted=change.is_deleted)
        if key == ALL_PARTITIONS:
            raise TableError(f"{where}: a partition {key} cannot be recorded, as that is the key of all partitions")
        files = names.setdefault(key, {})
        for name, size_bytes in change.added.items():
            if size_bytes <= 0:
                raise InvariantViolation(f"metadata table: file {name} of {size_bytes} bytes")
            files[name] = _file(size_bytes, is_deleted=False)
        files |= {name: _file(0, is_deleted=True) for name in change.deleted}
    return _encoded({key: files for key, files in names.items() if files}, partitions, schema_json, where)


def encode_listing(listing: Mapping[str, Mapping[str, int]], schema_json: str, where: str) -> bytes:
    """The HFile with all files of a table, such as the base file of the partition `files`.

    listing: partition path -> name -> size in bytes.
    """
    names: dict[str, Mapping[str, object]] = {
        files_key(partition): {name: _file(size_bytes, is_deleted=False) for name, size_bytes in files.items()}
        for partition, files in listing.items()
    }
    return _encoded(names, {key: _file(0, is_deleted=False) for key in names}, schema_json, where, is_base=True)


def _file(size_bytes: int, *, is_deleted: bool) -> Mapping[str, object]:
    return {"size": size_bytes, "isDeleted": is_deleted}


def _encoded(
    names: Mapping[str, Mapping[str, object]],
    partitions: Mapping[str, object],
    schema_json: str,
    where: str,
    *,
    is_base: bool = False,
) -> bytes:
    try:
        bounded: Any = bounded_schema(schema_json)
        schema = fastavro.parse_schema(bounded, named_schemas={})
        values = {ALL_PARTITIONS: _value(schema, _PARTITIONS, partitions)}
        values |= {key: _value(schema, _FILES, files) for key, files in names.items()}
    except DECODING_ERRORS as error:
        raise CorruptFile(f"{where}: its schema is not that of a metadata table: {str(error)[:200]}") from error
    rows = sorted((key.encode(), value) for key, value in values.items())
    info = {"schema": schema_json.encode()}
    if is_base:
        info |= {"minRecordKey": rows[0][0], "maxRecordKey": rows[-1][0]}
    return encode_hfile(rows, info)


def _value(schema: Any, kind: int, entries: Mapping[str, object]) -> bytes:
    """A record. Its key is empty, as Hudi's: the row is the key."""
    out = io.BytesIO()
    record = {"key": "", "type": kind, "filesystemMetadata": dict(entries)}
    fastavro.schemaless_writer(out, schema, record, strict_allow_default=True)
    return out.getvalue()
