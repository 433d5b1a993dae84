"""What two tables must hold that streams have written from a topic: rows, each commit, and files.

The expected rows are those of `topic_fold`, from the records of the topic alone.
"""

from __future__ import annotations

import datetime as dt
import json
import pathlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

import penstock
from penstock.enumerator.handover.commit_offsets import SINK_OFFSETS, SPARK_SINK
from penstock.table.hudi_table import open_table
from tests.golden.changes import folded, state_of
from tests.hybrid.topic_fold import Offsets, fold_topic
from tests.hybrid.topic_records import COLUMNS, PARTITIONS, Record, Row


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A commit of a stream."""

    requested: str
    """The requested time of its instant."""
    order_key: str
    """Its completion time."""
    number: int
    """The micro-batch."""
    ends: Offsets
    """The offset at its end in each partition of the topic."""


def rows_of(table: pa.Table) -> list[Row]:
    """The rows, with event times in UTC."""
    columns = [table[name].to_pylist() for name in COLUMNS]
    columns[COLUMNS.index("at")] = [at and at.astimezone(dt.UTC) for at in columns[COLUMNS.index("at")]]
    return list(zip(*columns, strict=True))


def row_problems(what: str, actual: Iterable[Row], expected: Iterable[Row]) -> Iterator[str]:
    """A line if the rows differ as multisets."""
    here, there = Counter(actual), Counter(expected)
    missing, extra = there - here, here - there
    if missing or extra:
        yield (
            f"{what}: {missing.total()} rows are missing, {extra.total()} are too many: "
            f"{list(missing.elements())[:3]}, {list(extra.elements())[:3]}"
        )


def batches_of(path: pathlib.Path, topic: str) -> list[CommittedBatch]:
    """The commits of the stream in a table, in the order of their completion."""
    table, batches = open_table(str(path)), []
    for instant in table.timeline().completed_writes:
        extra = table.commit(instant).extra
        if SPARK_SINK not in extra:  # a table service, or Hudi
            continue
        (number,) = json.loads(extra[SPARK_SINK]).values()
        ends = {int(partition): end for partition, end in json.loads(extra[SINK_OFFSETS])[topic].items()}
        batches.append(CommittedBatch(instant.requested_time, instant.completion_time or "", int(number), ends))
    return sorted(batches, key=lambda batch: batch.order_key)


def offset_problems(
    what: str, batches: Sequence[CommittedBatch], expected: Mapping[int, Offsets], filled: Collection[int]
) -> Iterator[str]:
    """Lines for commits that do not continue one another. `expected`: the ends of each micro-batch in the checkpoint;
    `filled`: those that have rows for the table, each of which has one commit."""
    numbers = [batch.number for batch in batches]
    if numbers != sorted(filled):
        times = Counter(numbers)
        yield (
            f"{what}: micro-batches without a commit: {sorted(set(filled) - times.keys())[:6]}, with several: "
            f"{[number for number in times if times[number] > 1][:6]}, in order: {numbers == sorted(numbers)}"
        )
    for batch in batches:
        if batch.ends != expected.get(batch.number):
            yield f"{what}: commit of micro-batch {batch.number} ends at {batch.ends}, not {expected.get(batch.number)}"
    for before, after in pairwise(batches):
        if any(after.ends[number] < before.ends[number] for number in before.ends):
            yield f"{what}: micro-batch {after.number} ends before {before.number}"


def parts(records: Sequence[Record], ends: Mapping[int, Offsets]) -> dict[int, list[Record]]:
    """The records of each micro-batch, by the ends of the checkpoint."""
    batches: dict[int, list[Record]] = {number: [] for number in ends}
    numbers = sorted(ends)
    for partition in range(PARTITIONS):
        limits = [ends[number][partition] for number in numbers]
        for record in records:
            place = bisect_right(limits, record.offset)
            if record.partition == partition and place < len(numbers):
                batches[numbers[place]].append(record)
    return batches


def commit_problems(
    what: str, table: pa.Table, batches: Sequence[CommittedBatch], records: Mapping[int, Sequence[Record]]
) -> Iterator[str]:
    """Lines for commits of inserts that have other rows than the records of their micro-batch."""
    by_commit: dict[str, list[Row]] = {}
    for instant, row in zip(table["_hoodie_commit_time"].to_pylist(), rows_of(table), strict=True):
        by_commit.setdefault(instant, []).append(row)
    for batch in batches:
        expected = rows_of_records(records.get(batch.number, ()))
        yield from row_problems(f"{what}, micro-batch {batch.number}", by_commit.pop(batch.requested, []), expected)
    if by_commit:
        yield f"{what}: rows of other commits: {sorted(by_commit)[:6]}"


def rows_of_records(records: Sequence[Record], after: Offsets | None = None) -> list[Row]:
    """The row of each record that has one, of those at or after these offsets."""
    late = [one for one in records if one.offset >= (after or {}).get(one.partition, 0)]
    return [row for record in late if (row := record.row()) is not None]


def won_after(records: Sequence[Record], ends: Offsets) -> list[Row]:
    """The rows of the fold whose record is at or after these offsets."""
    places = {row[COLUMNS.index("n")]: record for record in records if (row := record.row()) is not None}
    rows = fold_topic(records).values()
    winners = [(row, places[row[COLUMNS.index("n")]]) for row in rows]
    return [row for row, record in winners if record.offset >= ends.get(record.partition, 0)]


def stray_files(path: pathlib.Path) -> list[str]:
    """Files of data that no commit names, and what is left of writes that have ended."""
    table = open_table(str(path))
    named = {stat.path for instant in table.timeline().completed_writes for stat in table.commit(instant).stats}
    files = {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}

    def kept(name: str) -> bool:
        return name.startswith(".hoodie/") or ".hoodie_partition_metadata" in name

    left = {name for name in files if name.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/"))}
    return sorted({name for name in files if not kept(name)} - named | left)


def missing_files(path: pathlib.Path) -> list[str]:
    """Files that a commit names and that are not there."""
    table = open_table(str(path))
    named = {stat.path for instant in table.timeline().completed_writes for stat in table.commit(instant).stats}
    return sorted(name for name in named if not (path / name).exists())


def snapshot_problems(hudi: Any, path: pathlib.Path, expected: Sequence[Row]) -> Iterator[str]:
    """Lines for a snapshot that is not the expected one, by Hudi's reader or by Penstock's."""
    yield from row_problems(f"{path.name} by Penstock", rows_of(penstock.read(str(path)).read_all()), expected)
    yield from row_problems(f"{path.name} by Hudi", rows_of(hudi.read(path)), expected)


def range_problems(
    hudi: Any, path: pathlib.Path, begin: str, end: str, expected: Sequence[Row], snapshot: Sequence[Row]
) -> Iterator[str]:
    """Lines for a range of commits (completion times) with other rows than the expected ones. Of a log, Hudi also
    returns rows that lose against an older one: they are not in the snapshot."""
    ours = penstock.read(str(path), query="incremental", after=begin, upto=end).read_all()
    yield from row_problems(f"range of {path.name} by Penstock", rows_of(ours), expected)
    present = set(snapshot)
    hudis = [row for row in rows_of(hudi.incremental(path, begin, end)) if row in present]
    yield from row_problems(f"range of {path.name} by Hudi", hudis, expected)


def change_problems(path: pathlib.Path, end: str) -> Iterator[str]:
    """A line if all changes, in their order, do not lead to the rows of the table."""
    changes = penstock.read(str(path), query="cdc", cdc_format="rows", after="earliest", upto=end).read_all()
    rows = penstock.read(str(path)).read_all()
    if sorted(folded(changes, {}).values()) != sorted(state_of(rows).elements()):
        yield f"{path.name}: the changes do not lead to the rows"
