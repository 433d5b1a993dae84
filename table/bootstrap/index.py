"""Reads the index of a bootstrapped table: which source file holds the columns of each skeleton base file.

A metadata-only bootstrap writes base files with the meta columns alone, all with the instant METADATA_BOOTSTRAP. The
other columns stay in the source file, row by row in the same order. Source: Hudi `HFileBootstrapIndex`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.table.bootstrap.sources import path_in_sources
from penstock.table.config.properties import META_FOLDER
from penstock.table.files.slices import GroupId
from penstock.table.hfile.reader import HFile
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.avro_container import single_record
from penstock.table.timeline.fields import Fields

METADATA_BOOTSTRAP: Final = InstantTime("00000000000001")
"""The instant of skeleton base files (Hudi `METADATA_BOOTSTRAP_INSTANT_TS`). A full bootstrap has another one."""
INDEX_FILE: Final = (
    f"{META_FOLDER}/.aux/.bootstrap/.partitions/00000000-0000-0000-0000-000000000000-0_1-0-1_{METADATA_BOOTSTRAP}.hfile"
)
"""The index by partition. Hudi writes it once, under this name."""
MAX_SOURCES: Final = 10_000_000
"""Upper limit of the source files of an index."""

_INFO: Final = b"INDEX_INFO"
_PARTITION: Final = "part="


def read_sources(storage: Storage, partitions: Collection[str]) -> dict[GroupId, FileRef]:
    """The source file of each skeleton in these partitions, by file group. Its path is relative to the folder of the
    source files.

    The index stores absolute paths. A path counts relative to the folder that the index names, so that the sources may
    be moved together with the property. Only blocks of the HFile that can hold the partitions are read. {} if the table
    has no index. CorruptFile for a damaged index, and for a source file outside of the folder of the sources.
    """
    where = f"bootstrap index {INDEX_FILE} of table {redacted_uri(storage.base_path)}"
    try:
        source = storage.open_input(INDEX_FILE)
    except FileNotFoundError:
        return {}
    sources: dict[GroupId, FileRef] = {}
    with source:
        index = HFile(source, where)
        root = _root(index, where)
        rows = {f"{_PARTITION}{partition}".encode(): partition for partition in partitions}
        for row, value in index.lookup(rows):
            partition = rows[row]
            sources.update(_sources_of(partition, value, root, f"{where}: partition {partition[:200]!r}"))
            if len(sources) > MAX_SOURCES:
                raise CorruptFile(f"{where} is damaged: more than {MAX_SOURCES} source files")
    return sources


def _root(index: HFile, where: str) -> str:
    """The folder of the source files when the index was written."""
    info = index.info().get(_INFO)
    if info is None:
        raise CorruptFile(f"{where} is damaged: its file info lacks {_INFO.decode()}")
    where = f"{where}: index info"
    return Fields(single_record(info, where), where).required_text("bootstrapBasePath")


def _sources_of(partition: str, value: bytes, root: str, where: str) -> dict[GroupId, FileRef]:
    record = Fields(single_record(value, where), where)
    if record.text("partitionPath") != partition:
        raise CorruptFile(f"{where} is damaged: its record is of partition {record.text('partitionPath')[:200]!r}")
    sources: dict[GroupId, FileRef] = {}
    for file_id, entry in record.mapping("fileIdToBootstrapFile").items():
        status = record.nested(f"fileIdToBootstrapFile[{file_id[:100]}]", entry)
        uri = status.nested("path", status.values.get("path")).required_text("uri")
        if status.flag("isDir"):
            raise CorruptFile(f"{where} is damaged: the source of file group {file_id[:100]!r} is a folder")
        path = path_in_sources(uri, root, f"{where}, file group {file_id[:100]!r}")
        sources[partition, file_id] = FileRef(path, max(status.file_bytes("length"), 0))
    return sources
