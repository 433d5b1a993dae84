"""Savepoints: the data files that a clean must keep. Decoded and encoded. Pure.

Source: Hudi `HoodieSavepointMetadata`, `SavepointActionExecutor`. Avro on both layouts.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.proto.errors import CorruptFile
from penstock.proto.value_classes import dataclass
from penstock.table.timeline.commits import decode_metadata
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.metadata_schemas.savepoints import SAVEPOINT


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A completed savepoint."""

    files: Mapping[str, tuple[str, ...]]
    """Partition path -> the names of the files that it protects, sorted."""
    user: str = ""
    """Who made it."""
    saved_at_ms: int = 0
    """When, in milliseconds since 1970."""
    comment: str = ""
    """Its comment."""

    @property
    def protected(self) -> frozenset[tuple[str, str]]:
        """(partition, name) of its files."""
        return frozenset((partition, name) for partition, names in self.files.items() for name in names)


def encode_savepoint(savepoint: Savepoint) -> bytes:
    """The completed file of a savepoint: the inverse of `parse_savepoint`."""
    return encode_container(
        SAVEPOINT,
        {
            "savepointedBy": savepoint.user,
            "savepointedAt": savepoint.saved_at_ms,
            "comments": savepoint.comment,
            "partitionMetadata": {
                partition: {"partitionPath": partition, "savepointDataFile": list(names)}
                for partition, names in savepoint.files.items()
            },
            "version": 1,
        },
    )


def parse_savepoint(data: bytes, instant: Instant, table: str = "") -> Savepoint:
    """Decodes the completed file of a savepoint. CorruptFile for bytes that are not complete, and for paths instead of
    names."""
    fields = decode_metadata(data, instant, table)
    files: dict[str, tuple[str, ...]] = {}
    for partition, entry in fields.partitions("partitionMetadata", required=True):
        value = entry.values["of"]
        if value is None:
            raise CorruptFile(f"{entry.where}, field {entry.path}of: got null, expected the files of a partition")
        names = entry.nested("of", value).file_names("savepointDataFile")
        if "" in names:
            raise CorruptFile(f"{entry.where}, field {entry.path}savepointDataFile: got an empty name")
        files[partition] = tuple(sorted(names))
    return Savepoint(
        files=files,
        user=fields.text("savepointedBy"),
        saved_at_ms=fields.number("savepointedAt"),
        comment=fields.text("comments"),
    )
