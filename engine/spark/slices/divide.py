"""Divides a plan into the base files that Spark's Parquet reader reads, in groups, and the splits for Penstock. Pure.

Each row of the plan is in exactly one part. A file is Spark's only if the facts of its footer prove that Spark returns
the same rows; a file whose facts are unknown is Penstock's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.engine.spark.slices.footers import FileFacts
from penstock.engine.spark.slices.layout import FileLayout, SparkReading, spark_reading
from penstock.proto.errors import PenstockError
from penstock.proto.model.files import FileRef
from penstock.proto.model.splits import AllRows, RowGroupRun, Scan, Split, WholeFile
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.split.read_schema import read_schema_of
from penstock.table.base_formats import is_parquet
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema, parse_record_schema
from penstock.table.schema.history import ColumnMapping, parse_history

WRITERS: Final = ("parquet-mr", "parquet-java")
"""Spark's own Parquet library. Files of others may have encodings and statistics that it reads in another way."""
BRANCH_BYTES: Final = 32 << 20
"""A further group of files becomes a branch of the union only from this size on: a branch costs the time in which
Penstock reads about as much more slowly."""
MOST_BRANCHES: Final = 32

_PROVABLE: Final = (pa.string(), pa.int32(), pa.int64(), pa.date32(), pa.bool_())
"""Types of partition columns for which statistics can prove that the file has the path's value."""


@dataclass(frozen=True, slots=True)
class SparkFile:
    """A base file for Spark."""

    path: str
    """Relative to the table's base path."""
    size_bytes: int
    """Its size on storage."""


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Base files that one scan of Spark reads."""

    files: tuple[SparkFile, ...]
    """The files, in the order of the plan."""
    constants: tuple[tuple[str, pa.Scalar], ...]
    """Columns whose value comes from the partition's path and not from the files."""
    reading: SparkReading
    """How Spark may read them."""

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Division:
    """A plan in two parts."""

    spark: tuple[SparkFiles, ...]
    """The parts that Spark reads, the largest first."""
    rest: tuple[Split, ...]
    """The splits that Penstock reads, in commit order."""
    reasons: tuple[tuple[str, int], ...] = ()
    """Why Penstock reads log-free files, with the number of files."""


FactsOf = Callable[[Sequence[FileRef], tuple[str, ...]], Sequence[FileFacts | None]]
"""The facts of files; the columns are those of `FileFacts.single_values`."""


def divided(scan: Scan, splits: tuple[Split, ...], facts_of: FactsOf, *, branch_bytes: int | None = None) -> Division:
    """Divides the splits of a plan. `facts_of` is called at most once, with the base files of all log-free slices.

    `branch_bytes`: replaces BRANCH_BYTES.
    """
    slices = _log_free_slices(splits) if _is_snapshot(scan) else {}
    if not slices:
        return Division((), splits)
    examined = _Examination(scan)
    refs = [parts[0].base for parts in slices.values()]
    facts = facts_of([ref for ref in refs if ref is not None], examined.path_columns)
    groups: dict[tuple[tuple[str, pa.Scalar], ...], list[tuple[SparkFile, SparkReading]]] = defaultdict(list)
    reasons: dict[str, int] = defaultdict(int)
    group_of: dict[str, tuple[tuple[str, pa.Scalar], ...]] = {}
    for (path, parts), known in zip(slices.items(), facts, strict=True):
        match examined.group(parts, known):
            case (constants, reading) if known is not None:
                groups[constants].append((SparkFile(path, known.size_bytes), reading))
                group_of[path] = constants
            case reason:
                reasons[str(reason)] += 1
    chosen = _branches(groups, BRANCH_BYTES if branch_bytes is None else branch_bytes)
    read_by_spark = {file.path for branch in chosen for file in branch.files}
    left = len(group_of) - len(read_by_spark)
    if left:
        reasons["small partitions whose column values are not in the files"] += left
    rest = tuple(split for split in splits if split.base is None or split.base.path not in read_by_spark)
    return Division(chosen, rest, tuple(sorted(reasons.items())))


def _is_snapshot(scan: Scan) -> bool:
    return isinstance(scan.rows, AllRows) and scan.topic is None and scan.completion_times is None


def _log_free_slices(splits: Sequence[Split]) -> dict[str, list[Split]]:
    """The splits of each base file without a log, by the file's path."""
    slices: dict[str, list[Split]] = defaultdict(list)
    others: set[str] = set()
    for split in splits:
        if split.base is None:
            continue
        plain = isinstance(split.part, WholeFile | RowGroupRun) and split.ancestry is None and split.left_out is None
        path = split.base.path
        is_joined = split.base.source is not None
        if split.logs or not plain or is_joined or not is_parquet(path) or not _is_listed(path):
            others.add(split.base.path)
        slices[split.base.path].append(split)
    return {path: parts for path, parts in slices.items() if path not in others}


def _is_listed(path: str) -> bool:
    """Whether Spark reads files of this name: it skips hidden ones (`PartitioningAwareFileIndex.isDataPath`)."""
    return not path.rpartition("/")[2].startswith((".", "_"))


class _Examination:
    """Decides about the files of one scan."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._record: RecordSchema = parse_record_schema(scan.schema_json, f"schema of table {scan.table}")
        self._arrow = arrow_schema(self._record)
        self._history = parse_history(scan.schema_history, f"table {scan.table}") if scan.schema_history else None
        self._readings: dict[tuple[int, str, tuple[str, ...]], tuple[FileLayout, SparkReading | str]] = {}
        self.path_columns = tuple(
            name for name in scan.columns if name in scan.partition_fields and self._arrow.field(name).type in _PROVABLE
        )

    def group(
        self, splits: Sequence[Split], facts: FileFacts | None
    ) -> tuple[tuple[tuple[str, pa.Scalar], ...], SparkReading] | str:
        """The constant columns of a file and how Spark reads the others; or why Penstock reads it."""
        if facts is None:
            return "no footer"
        if not facts.writer.startswith(WRITERS):
            return f"written by {facts.writer[:40] or 'an unknown library'}"
        if facts.legacy_calendar:
            return "dates of the legacy calendar"
        if not _is_whole(splits, facts.row_groups):
            return "the plan leaves out row groups"
        try:
            constants = self._constants(splits[0], facts)
        except PenstockError as error:
            return str(error)
        fixed = {name for name, _ in constants}
        stored = tuple(name for name in self._scan.columns if name not in fixed) or self._any_column()
        reading = self._reading(facts.layout, splits[0].base_instant, stored)
        return reading if isinstance(reading, str) else (constants, reading)

    def _any_column(self) -> tuple[str, ...]:
        """The column that is read when only values of the path are returned: Spark needs one to count rows."""
        return read_schema_of(self._scan).stored[:1]

    def _constants(self, split: Split, facts: FileFacts) -> tuple[tuple[str, pa.Scalar], ...]:
        columns = [name for name in self._scan.columns if name in self._scan.partition_fields]
        values = PartitionConstants(self._scan, split, self._arrow, columns)
        constants: list[tuple[str, pa.Scalar]] = []
        for name in columns:
            column = values.column(name, 1)
            if column is None:
                continue
            stored = facts.single_values.get(name)
            if stored is None or stored != column[0].as_py() or type(stored) is not type(column[0].as_py()):
                constants.append((name, column[0]))
        return tuple(constants)

    def _reading(self, layout: FileLayout, instant: str, columns: tuple[str, ...]) -> SparkReading | str:
        """How Spark reads the columns of a layout; the same for all files of an instant, or without a history of all.

        The key holds the layout's identity, and the value the layout, so that the identity stays its own.
        """
        key = (id(layout), instant if self._history is not None else "", columns)
        if key not in self._readings:
            names = None
            if self._history is not None:
                names = ColumnMapping(self._history.at(instant).columns, self._history.current.columns, "")
            answer = spark_reading(layout, self._record, columns, names)
            self._readings[key] = layout, answer if isinstance(answer, SparkReading) else answer.reason
        return self._readings[key][1]


def _is_whole(splits: Sequence[Split], row_groups: int) -> bool:
    """Whether the splits of a file cover each of its row groups exactly once."""
    if len(splits) == 1 and isinstance(splits[0].part, WholeFile):
        return True
    end = 0
    for first, after in sorted((s.part.first, s.part.end) for s in splits if isinstance(s.part, RowGroupRun)):
        if first != end:
            return False
        end = after
    return end == row_groups and all(isinstance(split.part, RowGroupRun) for split in splits)


def _branches(
    groups: dict[tuple[tuple[str, pa.Scalar], ...], list[tuple[SparkFile, SparkReading]]], branch_bytes: int
) -> tuple[SparkFiles, ...]:
    """The groups that become branches: the largest, and others of at least `branch_bytes`."""
    branches = [
        SparkFiles(
            tuple(file for file, _ in members),
            constants,
            SparkReading(
                frozenset(name for _, reading in members for name in reading.unpushed),
                all(reading.pushes for _, reading in members),
            ),
        )
        for constants, members in groups.items()
    ]
    branches.sort(key=lambda branch: -branch.size_bytes)
    return tuple(
        branch
        for place, branch in enumerate(branches[:MOST_BRANCHES])
        if place == 0 or branch.size_bytes >= branch_bytes
    )
