"""`penstock.write`: writes data, and compacts the table when it is due."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from penstock.engine.table_services.compaction import compact
from penstock.engine.write.results import WriteResult
from penstock.engine.write.service.remote_transaction import write_server
from penstock.engine.write.write import write as write_rows
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import open_writable
from penstock.table.timeline.instants import Action
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.rows.chunks import Data
from penstock.writer.table_services.compaction import deltas_since_compaction

log = logging.getLogger("penstock.writer")


def write(
    path: str,
    data: Data,
    operation: str = "upsert",
    *,
    index: str | None = None,
    buckets: int | None = None,
    timeline_timezone: str = "",
    sole_writer: bool = False,
    sizes: FileSizes | None = None,
    time_partitions: Mapping[str, str] | None = None,
    update_partition_path: bool | None = None,
    metadata: str = "files",
    compact_after: int | None = None,
    server: str | None = None,
    server_options: Mapping[str, str] | None = None,
) -> WriteResult:
    """Writes the rows of `data` into the table at `path` as one instant. Either all of it becomes visible, or nothing.

    * operation: `upsert`, `insert`, `bulk_insert`, `delete` (the rows' keys), `insert_overwrite` (the partitions of the
      rows), `insert_overwrite_table`, `delete_partition` (the partitions of the rows). Rows with
      `_hoodie_is_deleted`=true are deletes.
    * index: `bucket`, `simple`, `bloom`, `global_simple` or `global_bloom`, the index of all the table's writers; by
      default the one given to `create_table`. `buckets`: the number of buckets of a partition.
    * timeline_timezone: the zone of the table's writers, for a table with a LOCAL timeline.
    * sole_writer: nobody else writes the table, so that pending writes of others are those of killed writers, and are
      rolled back.
    * sizes: the sizes to which base files are filled.
    * time_partitions: the options of `create_table`, for a table of Hudi with times as partitions that does not record
      them. They must be those of all the table's writers.
    * metadata: `files` keeps the partition `files` of a metadata table current, if the table has one, and removes the
      other partitions; `off` removes the metadata table, as Hudi with `hoodie.metadata.enable=false` does.
    * update_partition_path: with a global index, whether a row whose key is stored in another partition moves it: it is
      deleted there, and inserted into the row's own partition, unless the stored row has a higher ordering value. That
      is the default; with False the row is written where its key is, and keeps its own partition column.
    * compact_after: after so many delta commits since the last compaction, the table is compacted (`penstock.compact`)
      after the write, and also if a compaction is pending. If that fails, a warning says so: the write is complete.
    * server: HOST:PORT of a server (`penstock serve`) that owns the table's timeline; `path` is then the table's name
      there, and its folder must be the same here. The server begins and completes the instant, and says before the
      files are written if another of its writers has one of the file groups. Not with sole_writer and compact_after.
      `server_options`: `serverCa`, `serverCert`, `serverKey`, `serverToken`.

    Columns are cast to the table's types without loss; columns that the data adds or widens change the table's schema;
    columns that it lacks are null. Rows of one key are combined by the table's merge rule (not for inserts).

    Data of more than 64 MiB is read to its end into a temporary file (without a name, in TMPDIR), before the timeline
    changes, and written by file group. Memory: about the rows of one file group, and a few row groups of base files.

    WriteConflict if another writer changed the same file groups, SchemaMismatch for data that does not fit,
    UnsupportedFeature for a table that cannot be written safely. Nothing is visible after an error.
    """
    if compact_after is not None and compact_after < 1:
        raise ConfigurationError(f"compact_after: got {compact_after}, expected 1 or more delta commits")
    if compact_after is not None and server is not None:
        raise ConfigurationError("compact_after: no compaction follows a write through a server: leave it out")
    result = write_rows(
        path,
        data,
        operation,
        index=index,
        buckets=buckets,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
        sizes=sizes,
        time_partitions=time_partitions,
        update_partition_path=update_partition_path,
        metadata=metadata,
        server=write_server(server, server_options),
    )
    return result if compact_after is None else _compacted(path, result, compact_after, timeline_timezone, sole_writer)


def _compacted(
    path: str,
    result: WriteResult,
    compact_after: int,
    timeline_timezone: str,
    sole_writer: bool,
) -> WriteResult:
    """The result with the compactions that follow the write. If they fail, a warning says so."""
    try:
        if not is_due(path, compact_after):
            return result
        compacted = compact(path, timeline_timezone=timeline_timezone, sole_writer=sole_writer)
    except PenstockError as error:
        log.warning("table %s: write %s is complete, and no compaction followed: %s", path, result.instant, error)
        return result
    return replace(result, compacted=tuple(one.instant for one in compacted))


def is_due(path: str, compact_after: int) -> bool:
    """Whether a table has a pending compaction, or so many delta commits since the last one."""
    storage = open_writable(str(path))
    table = HudiTable(storage, load_properties(storage))
    if not table.properties.is_merge_on_read:
        return False
    timeline = table.timeline()
    if any(item.action is Action.COMPACTION for item in timeline.pending):
        return True
    return deltas_since_compaction(timeline) >= compact_after
