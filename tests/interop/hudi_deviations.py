"""Known wrong results of Hudi 1.2.0: each rule predicts the rows that Hudi returns, and names its documentation.

There are at most nine rules. Any other difference is a failure. Rules 5 to 7 are in `history_changes`.

1. A pending multi-writer write hides committed rows of its file groups until it is rolled back
   (docs/reference/semantics.md "Where Penstock differs", golden case A_failed_leftover_v9): expected are the rows of
   the table after the rollback.
2. Rows that a log compaction rewrote show the log compaction's own instant (docs/reference/semantics.md "Merging",
   golden A_log_compaction): expected is the instant of their writer.
3. A merge-on-read range merges only the range's files, so it returns rows that lost (docs/reference/semantics.md "Where
   Penstock differs", golden B_v9_inc_mor inc_03).
4. A range whose files were cleaned is answered from the newest snapshot (same place, golden B_v9_arch_cow).
5. Decimals of images that come from files are lost (golden B_v9_cdc_types_*); 0.15.0 also writes nested values of them
   as they lie in memory (golden B_v6_cdc_types_cow cdc_01).
6. A change is inferred from one file alone (`HoodieCDCInferenceCase`). LOG_FILE: a delete that loses the merge is
   still a `d`; a write of a deleted key is an `i` of its own row, even if the base row beneath it wins.
   BASE_FILE_INSERT: a base file with as many rows as inserts is treated as its group's first one. If delete flags
   emptied it, the deletes of its rows are missing; if a flagged row counts as an insert, carried-over rows are inserts.
7. 1.2.0 fails on changes in logs of version 6 ("Not an Avro data file", golden B_v6_cdc_mor_*): 0.15.0 is used where it
   wrote the table, except in commit-time order: there it merges by ordering value, where 1.x does not
   (docs/reference/semantics.md "Merging", payload OverwriteWithLatestAvroPayload).
8. Services of 0.15.0 change rows. Its compaction has other merge rules (ordering values also in commit-time order, a
   late delete may win, one row of a duplicate key remains): after one that changed the newest rows, earlier states and
   folded changes are not compared. It multiplies decimals in rewritten clustered files (golden B_v6_inc_cow). Its
   reader stops at the block of a rollback that is later than the newest write of the query
   (`AbstractHoodieLogRecordReader`): it lacks the logs of a write that made a rollback. 1.2.0 reads them.
9. Version 6, merge on read: while a compaction is pending, a range lacks the log records of file slices that are older
   than the range and newer than the plan (docs/reference/semantics.md "Where Penstock differs"). 1.2.0 adds the pending
   compactions to the instants of the range, and takes a slice whose instant is neither among them nor before all of
   them for uncommitted (`MergeOnReadIncrementalRelationV1.timeline`). 0.15.0 returns the records.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tests.interop.history_actions import Action, Race, Row, Upgrade, Write

KEY, PARTITION = "_hoodie_record_key", "_hoodie_partition_path"
TIME, NUMBER = "_hoodie_commit_time", "_hoodie_commit_seqno"
FILE_NAME = "_hoodie_file_name"
LOG = re.compile(r"\.(?P<group>[^_]+)_(?P<slice>\d+)\.log\.")
BASE = re.compile(r"(?P<group>[^_]+)_[^_]+_\d+\.parquet")


def rows_of(rows: pa.Table, requested: Iterable[str]) -> pa.Table:
    """The rows whose last writer is one of the instants."""
    return rows.filter(pc.is_in(rows[TIME], pa.array(list(requested), pa.string())))


def as_if_rolled_back(table: pathlib.Path, crashed: Iterable[str]) -> pathlib.Path:
    """Rule 1: a copy of the table without the files of crashed writes (version 8 and up: file names have their
    time)."""
    copy = table.with_name("scrubbed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy, copy_function=shutil.copy2)
    for file in [path for requested in crashed for path in copy.rglob(f"*{requested}*")]:
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    return copy


@dataclass(slots=True)
class Stamps:
    """Rule 2: the commit times of rows before a log compaction replaced them."""

    instants: set[str] = field(default_factory=set)
    before: dict[tuple[str, str, str], tuple[str, str]] = field(default_factory=dict)

    def learn(self, compactions: Iterable[str], rows: pa.Table) -> None:
        """Records the log compactions of a table with these rows, which have their original commit times."""
        columns = [rows[name].to_pylist() for name in (PARTITION, KEY, TIME, NUMBER)]
        for requested in compactions:
            self.instants.add(requested)
            for partition, key, time, number in zip(*columns, strict=True):
                self.before[requested, partition, key] = (time, number)

    def restored(self, rows: pa.Table) -> pa.Table:
        """The rows with the commit times of their writers."""
        if not self.instants:
            return rows
        columns = [rows[name].to_pylist() for name in (PARTITION, KEY, TIME, NUMBER)]
        own = [
            self.before.get((time, part, key), (time, number)) for part, key, time, number in zip(*columns, strict=True)
        ]
        for place, name in enumerate((TIME, NUMBER)):
            values = pa.array([stamp[place] for stamp in own], pa.string())
            rows = rows.set_column(rows.schema.get_field_index(name), name, values)
        return rows


def without_late_rows(hudis: pa.Table, winners: pa.Table, action: Action) -> pa.Table:
    """Rule 3: the rows of a range without those that the action wrote and that lost, or were deleted, in the full
    slice."""
    lost = _written(action) - set(winners["id"].to_pylist())
    return hudis.filter(pc.invert(pc.is_in(hudis["id"], pa.array(sorted(lost), pa.string()))))


def _written(action: Action) -> set[str]:
    def keys(*groups: tuple[Row, ...]) -> set[str]:
        return {row.key for rows in groups for row in rows}

    match action:
        case Write(rows=rows) | Upgrade(write=Write(rows=rows)):
            return keys(rows)
        case Race(slow, fast):
            return keys(slow.rows, fast.rows)
        case _:
            return set()


def without_hidden_slices(rows: pa.Table, table: pathlib.Path, begin: str, end: str) -> pa.Table:
    """Rule 9: the rows of the range (begin, end] of a table of version 6 that Hudi 1.2.0 returns."""
    hidden = _hidden_records(table, begin, end)
    columns = [rows[name].to_pylist() for name in (TIME, PARTITION, FILE_NAME)]
    keep = [(time, part, name.partition("_")[0]) not in hidden for time, part, name in zip(*columns, strict=True)]
    return rows.filter(pa.array(keep, pa.bool_()))


def _hidden_records(table: pathlib.Path, begin: str, end: str) -> set[tuple[str, str, str]]:
    """(instant, partition path, file group) of log records in slices that Hudi takes for uncommitted."""
    timeline = table / ".hoodie"
    plans = [path.name.partition(".")[0] for path in timeline.glob("*compaction.requested")]
    pending = {plan for plan in plans if not list(timeline.glob(f"{plan}.*commit"))}
    if not pending:
        return set()
    hidden: set[tuple[str, str, str]] = set()
    rewritten: set[tuple[str, str]] = set()
    for instant, partition, name in _written_files(timeline, begin, end):
        if base := BASE.fullmatch(name):
            rewritten.add((partition, base["group"]))
        elif (log := LOG.match(name)) and min(pending) < log["slice"] <= begin and log["slice"] not in pending:
            hidden.add((instant, partition, log["group"]))
    return {record for record in hidden if record[1:] not in rewritten}


def _written_files(timeline: pathlib.Path, begin: str, end: str) -> Iterator[tuple[str, str, str]]:
    """(instant, partition path, file name) of what the completed writes of (begin, end] wrote."""
    for path in timeline.glob("*commit"):
        instant = path.name.partition(".")[0]
        if begin < instant <= end:
            for partition, stats in json.loads(path.read_bytes())["partitionToWriteStats"].items():
                for stat in stats:
                    yield instant, partition, stat["path"].rpartition("/")[2]
