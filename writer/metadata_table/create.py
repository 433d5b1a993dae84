"""Creates the metadata table of a table, with the partition `files`.

Source: Hudi `HoodieBackedTableMetadataWriter.initializeFromFilesystem`: a deltacommit of the reserved time zero, with
the base file of the only file group, and a log with an empty block of deletes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from penstock.proto.model.positions import InstantTime
from penstock.table.config.java_properties import format_properties
from penstock.table.config.new_table import new_metadata_properties
from penstock.table.config.properties import META_FOLDER, PROPERTIES_FILE
from penstock.table.files.listing import PARTITION_MARKER
from penstock.table.files.markers import partition_metadata
from penstock.table.files.names import base_file_name, log_file_name
from penstock.table.log.block_encoder import INSTANT_TIME, delete_block_content, encode_block
from penstock.table.log.blocks import BlockKind
from penstock.table.metadata.files import FILES
from penstock.table.metadata.folder import WritableFolder
from penstock.table.metadata.metadata_table import METADATA_FOLDER
from penstock.table.metadata.record_encoder import encode_listing
from penstock.table.metadata.record_schema import RECORD_SCHEMA, block_schema
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.timeline.commit_encoder import encode_commit
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action
from penstock.writer.metadata_table.opened import FILE_GROUP, TOKEN
from penstock.writer.metadata_table.partitions import INFLIGHT, PARTITIONS
from penstock.writer.metadata_table.table_properties import change_properties

_FIRST: Final = InstantTime("0" * 17)
_FOLDERS: Final = (".aux", ".temp", ".schema", "timeline/history")
_TIMELINE: Final = f"{META_FOLDER}/timeline"


def create_metadata_table(
    storage: WritableStorage, table_name: str, listing: Mapping[str, Mapping[str, int]], completion: InstantTime
) -> None:
    """Creates the metadata table of a table of version 9, and lists it in the table's properties. A process that is
    killed leaves a table without one.

    listing: partition path -> name -> size in bytes of all data files of completed instants. completion: a time later
    than all times of the table's timeline.
    """
    storage.remove_folder(METADATA_FOLDER)
    folder = WritableFolder(storage, METADATA_FOLDER)
    for name in _FOLDERS:
        folder.make_folder(f"{META_FOLDER}/{name}")
    folder.create(PROPERTIES_FILE, format_properties(new_metadata_properties(table_name), ("Properties saved",)))
    for state in ("requested", "inflight"):
        folder.create(f"{_TIMELINE}/{_FIRST}.deltacommit.{state}", b"")
    folder.create(f"{FILES}/{PARTITION_MARKER}", partition_metadata(_FIRST, FILES))
    no_deletes = delete_block_content(pa.array([], pa.string()), "")
    block = encode_block(BlockKind.DELETE, {INSTANT_TIME: _FIRST}, no_deletes)
    folder.create(f"{FILES}/{log_file_name(FILE_GROUP, _FIRST, 1, TOKEN)}", block)
    base = base_file_name(FILE_GROUP, TOKEN, _FIRST, "hfile")
    data = encode_listing(listing, block_schema(RECORD_SCHEMA, METADATA_FOLDER), METADATA_FOLDER)
    folder.create(f"{FILES}/{base}", data)
    commit = encode_commit(_commit(base, len(listing) + 1, len(data)), Action.DELTA_COMMIT, 2)
    folder.create(f"{_TIMELINE}/{_FIRST}_{completion}.deltacommit", commit)
    change_properties(storage, {PARTITIONS: FILES, INFLIGHT: ""})


def _commit(base: str, rows: int, size_bytes: int) -> CommitMetadata:
    stat = WriteStat(
        partition=FILES,
        file_id=FILE_GROUP,
        path=f"{FILES}/{base}",
        num_writes=rows,
        num_deletes=0,
        num_inserts=rows,
        num_update_writes=0,
        file_size_bytes=size_bytes,
        base_file="",
        log_files=(),
        prev_commit="",
    )
    return CommitMetadata(
        requested_time=_FIRST,
        operation="BULK_INSERT_PREPPED",
        compacted=False,
        schema_json=RECORD_SCHEMA,
        extra={},
        stats=(stat,),
        replaced=(),
    )
