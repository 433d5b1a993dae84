"""Where Hudi 1.2.0's answer is known to be wrong: each rule says what Hudi returns instead, and where that is written.

At most eight rules. A rule predicts Hudi's wrong rows; what no rule predicts is a difference. 5 to 7 are in
`history_changes`.

1. A pending multi-writer write hides committed rows of its file groups until it is rolled back
   (docs/reference/semantics.md "Where Penstock differs", golden case A_failed_leftover_v9): the answer is that of
   the table as if rolled back.
2. Rows that a log compaction rewrote show the log compaction's own instant (docs/reference/semantics.md "Merging",
   golden A_log_compaction): their own instant is the one they had before.
3. A merge-on-read range merges the range's files alone, so rows that lost come back (docs/reference/semantics.md "Where
   Penstock differs", golden B_v9_inc_mor inc_03).
4. A range whose files were cleaned is answered from the newest snapshot (same place, golden B_v9_arch_cow).
5. Decimals of images that come from files are lost (golden B_v9_cdc_types_*); 0.15.0 also writes nested values of them
   as they lie in memory (golden B_v6_cdc_types_cow cdc_01).
6. A change is inferred from one file alone (`HoodieCDCInferenceCase`). LOG_FILE: a delete that loses the merge is a `d`
   nevertheless, a write of a key that was deleted an `i` of its own row though the base row beneath it wins.
   BASE_FILE_INSERT: a base file with as many rows as inserts is taken for its group's first one. Where delete flags
   emptied it, the deletes of its rows miss; where a flagged row counts as an insert, rows carried over are inserts.
7. 1.2.0 fails on changes in logs of version 6 ("Not an Avro data file", golden B_v6_cdc_mor_*): 0.15.0 answers where it
   wrote the table, but in commit-time order: there it merges by ordering value, where 1.x does not
   (docs/reference/semantics.md "Merging", payload OverwriteWithLatestAvroPayload).
8. Services of 0.15.0 change rows. Its compaction merges by rules of its own (ordering values in commit-time order too,
   a late delete may win, of a doubled key one row stays): the states before one that changed the newest rows stand no
   longer, nor does a sum of changes. What it rewrites of a clustered file has its decimals multiplied (golden
   B_v6_inc_cow).
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tests.interop.history_actions import Action, Race, Row, Upgrade, Write

KEY, PARTITION = "_hoodie_record_key", "_hoodie_partition_path"
TIME, NUMBER = "_hoodie_commit_time", "_hoodie_commit_seqno"


def rows_of(rows: pa.Table, requested: Iterable[str]) -> pa.Table:
    """The rows whose last writer is one of the instants."""
    return rows.filter(pc.is_in(rows[TIME], pa.array(list(requested), pa.string())))


def as_if_rolled_back(table: pathlib.Path, crashed: Iterable[str]) -> pathlib.Path:
    """Rule 1: a copy of the table without anything of the crashed writes (version 8 and up: files carry its time)."""
    copy = table.with_name("scrubbed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy, copy_function=shutil.copy2)
    for file in [path for requested in crashed for path in copy.rglob(f"*{requested}*")]:
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    return copy


@dataclass(slots=True)
class Stamps:
    """Rule 2: what rows were stamped before a log compaction stamped them."""

    instants: set[str] = field(default_factory=set)
    before: dict[tuple[str, str, str], tuple[str, str]] = field(default_factory=dict)

    def learn(self, compactions: Iterable[str], rows: pa.Table) -> None:
        """The log compactions of a table that had these rows, with their own stamps."""
        columns = [rows[name].to_pylist() for name in (PARTITION, KEY, TIME, NUMBER)]
        for requested in compactions:
            self.instants.add(requested)
            for partition, key, time, number in zip(*columns, strict=True):
                self.before[requested, partition, key] = (time, number)

    def restored(self, rows: pa.Table) -> pa.Table:
        """The rows with the stamps that their writers gave them."""
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
    """Rule 3: a range's rows without those that the action wrote and that lost, or were deleted, in the full slice."""
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
