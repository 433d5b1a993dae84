"""A source and a target in memory for tests of a sync: both can fail between any two calls."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.engine.sync.feed import Round
from penstock.engine.sync.job import SyncEntry, TargetUrl
from penstock.engine.sync.layout import TargetLayout, described_layout
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.targets.target import StoredTable, Write
from penstock.proto.errors import StorageError, TargetConflict, TargetUnavailable
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.reports import TableDescription

AVRO = {pa.int32(): "int", pa.int64(): "long", pa.string(): "string", pa.float64(): "double"}
META = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path")
COLUMNS = pa.schema(
    [*(pa.field(name, pa.string()) for name in META), ("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())]
)


def schema_json(columns: pa.Schema) -> str:
    """An Avro schema with these columns, each nullable."""
    import json

    fields = [{"name": one.name, "type": ["null", AVRO[one.type]], "default": None} for one in columns]
    return json.dumps({"type": "record", "name": "t", "fields": fields})


def described(columns: pa.Schema = COLUMNS, **changes: Any) -> TableDescription:
    """A table with the record key `id` and the partition `p`."""
    values: dict[str, Any] = {
        "table": "t",
        "base_path": "/lake/t",
        "hudi_name": "t",
        "table_type": "COPY_ON_WRITE",
        "table_version": 9,
        "timeline_layout": 2,
        "timeline_timezone": "UTC",
        "merge_mode": "EVENT_TIME_ORDERING",
        "record_key_fields": ("id",),
        "partition_fields": ("p",),
        "ordering_fields": (),
        "schema_json": schema_json(columns),
        "newest": EARLIEST,
    }
    return TableDescription(**{**values, **changes})


def source_of(name: str = "t", into: str = "", target: str = "copy.db") -> SourceTable:
    """A source that fills the table of its name, or `into`."""
    entry = SyncEntry(
        source=f"/lake/{name}",
        target=TargetUrl("duckdb", target),
        into=into,
        source_column="_source" if into else "",
    )
    return SourceTable(entry=entry, name=name, table=f"/lake/{name}", target_table=into or name)


Image = Mapping[str, Any]


@dataclass
class ScriptedFeed:
    """A `Feed` of known rounds: first parts of a snapshot, then commits. A position is the number of rounds."""

    parts: Sequence[Sequence[Image]] = ()
    """The rows of the snapshot, in parts."""
    commits: Sequence[Sequence[tuple[str, Image]]] = ()
    """Changes of each commit after it, as (change type, image), in the order of `_change_seq`."""
    columns: pa.Schema = COLUMNS
    """The columns."""
    columns_later: Mapping[int, pa.Schema] = field(default_factory=dict)
    """Columns from the round with this number on."""
    fault: Any = lambda where: None
    """Called before and inside each operation; may raise."""
    description: TableDescription | None = None
    """The description; None: one of `columns`."""

    def layout(self, entry: SyncEntry) -> TargetLayout | None:
        """See `Feed`."""
        self.fault("layout")
        return described_layout(self.description or described(self.columns), entry.key, entry.source_column)

    def start(self) -> str:
        """See `Feed`."""
        self.fault("start")
        return "0"

    def next_round(self, position: str) -> Round | None:
        """See `Feed`."""
        self.fault("next_round")
        number = int(position)
        if number == len(self.parts) + len(self.commits):
            return None
        in_snapshot = number < len(self.parts)
        return Round(
            position=str(number + 1),
            columns=self._columns(number),
            in_snapshot=in_snapshot,
            done=number + 1 if in_snapshot else 0,
            total=len(self.parts) if in_snapshot else 0,
            order_key=f"{number:03}",
        )

    def batches(self, of: Round) -> Generator[pa.RecordBatch, None, None]:
        """See `Feed`: two batches, the later rows first."""
        number = int(of.position) - 1
        if of.in_snapshot:
            images = [("+I", image) for image in self.parts[number]]
        else:
            images = list(self.commits[number - len(self.parts)])
        rows = [
            {"_change_type": kind, "_change_seq": f"{number:05}-{place:05}", **image}
            for place, (kind, image) in enumerate(images)
        ]
        own = [pa.field("_change_type", pa.string()), pa.field("_change_seq", pa.string())]
        schema = pa.schema([*own, *self._columns(number)])
        middle = len(rows) // 2
        for part in (rows[middle:], rows[:middle]):
            self.fault("batches")
            if part:
                yield pa.RecordBatch.from_pylist(part, schema)
        self.fault("batches end")

    def _columns(self, number: int) -> pa.Schema:
        return next(
            (self.columns_later[at] for at in sorted(self.columns_later, reverse=True) if at <= number), self.columns
        )


@dataclass
class MemoryTarget:
    """A `Target` in memory, whose `write` is atomic. `fault("write")` is called before, inside and after the commit."""

    fault: Any = lambda where: None
    """Called at each step; may raise."""
    tables: dict[str, StoredTable] = field(default_factory=dict)
    """Layouts and positions."""
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows."""
    writes: list[Write] = field(default_factory=list)
    """Transactions that were committed."""

    def check_columns(self, table: str, columns: pa.Schema) -> None:
        """See `Target`."""

    def types_of(self, columns: pa.Schema) -> list[str]:
        """See `Target`."""
        return [str(one.type) for one in columns]

    def stored(self, table: str) -> StoredTable | None:
        """See `Target`."""
        self.fault("stored")
        return self.tables.get(table)

    def write(self, write: Write) -> None:
        """See `Target`."""
        self.fault("write")
        stored, layout = self.tables.get(write.table), write.change.layout
        positions = dict(stored.positions) if stored else {}
        if positions.get(write.source) != write.expected:
            raise TargetConflict("another process")
        rows = list(self.rows.get(write.table, []))
        if write.replaces:
            column = layout.source_column
            rows = [row for row in rows if column and row[column] != write.source_name]
            positions = positions if column else {}
        if write.removed is not None:
            removed = {tuple(row.values()) for row in write.removed.to_pylist()}
            rows = [row for row in rows if tuple(row[name] for name in write.removed.column_names) not in removed]
        for batch in write.rows:
            assert all(one.type == layout.columns.field(one.name).type for one in batch.schema)
            rows.extend({**dict.fromkeys(layout.columns.names), **row} for row in batch.to_pylist())
        self.fault("write")
        added = [name for name in layout.columns.names if rows and name not in rows[0]]
        self.rows[write.table] = [{**dict.fromkeys(added), **row} for row in rows]
        self.tables[write.table] = StoredTable(layout=layout, positions={**positions, write.source: write.position})
        self.writes.append(write)
        self.fault("write")

    def repeated_key(self, table: str, source: str) -> str:
        """See `Target`."""
        self.fault("repeated_key")
        layout = self.tables[table].layout
        rows = [row for row in self.rows.get(table, []) if row.get(layout.source_column, source) == source]
        counted = Counter(str([row[name] for name in layout.key]) for row in rows)
        return next((key for key, count in counted.items() if count > 1), "")

    def close(self) -> None:
        """See `Target`."""

    def texts(self, table: str = "t") -> Counter[str]:
        """The rows of a table as a multiset."""
        return Counter(str(sorted(row.items())) for row in self.rows.get(table, []))


class RandomFaults:
    """Raises a retryable error at a random part of the calls, at most `most` times."""

    def __init__(self, rng: random.Random, chance: float = 0.25, most: int = 40) -> None:
        self._rng, self._chance, self.left = rng, chance, most

    def __call__(self, where: str) -> None:
        """Perhaps raises."""
        if self.left and self._rng.random() < self._chance:
            self.left -= 1
            raise TargetUnavailable(where) if self._rng.random() < 0.5 else StorageError(where)


def random_history(rng: random.Random, layout: TargetLayout | None = None) -> tuple[ScriptedFeed, Counter[str]]:
    """A feed of a random history, and the rows after it as `MemoryTarget.texts` returns them.

    A row is inserted, updated, deleted, inserted again, and moves to another partition with or without an update of its
    own file group. Each partition has its own rows, as with an index that is not global.
    """
    state: dict[tuple[int | None, str | None], int] = {}
    ids, partitions = [*range(6), None], ["a", "b", None]
    for _ in range(rng.randrange(8)):
        state[rng.choice(ids), rng.choice(partitions)] = rng.randrange(100)
    parts: list[list[Image]] = [[] for _ in range(rng.randrange(4))]
    if not parts:
        state.clear()
    for key, value in state.items():
        rng.choice(parts).append(_image(key, value))
    commits = [_commit(rng, state, ids, partitions) for _ in range(rng.randrange(1, 9))]
    rows = [{"id": key[0], "p": key[1], "v": value} for key, value in state.items()]
    return ScriptedFeed(parts, commits), Counter(str(sorted(row.items())) for row in rows)


def _commit(
    rng: random.Random, state: dict[tuple[int | None, str | None], int], ids: list[int | None], partitions: list[Any]
) -> list[tuple[str, Image]]:
    deletes: list[tuple[str, Image]] = []
    others: list[tuple[str, Image]] = []
    touched: set[Any] = set()
    for _ in range(rng.randrange(6)):
        key, to = (rng.choice(ids), rng.choice(partitions)), (rng.choice(ids), rng.choice(partitions))
        if key in touched or to in touched:
            continue
        touched |= {key, to}
        if key not in state:
            state[key] = rng.randrange(100)
            others.append(("+I", _image(key, state[key])))
            continue
        before = _image(key, state.pop(key))
        match rng.randrange(4):
            case 0:
                deletes.append(("-D", before))
            case 1 if to not in state and to != key:  # the row moves to another file group
                state[to] = rng.randrange(100)
                deletes.append(("-D", before))
                others.append(("+I", _image(to, state[to])))
            case 2 if to not in state and to != key:  # columns of the key change within a file group
                state[to] = rng.randrange(100)
                others += [("-U", before), ("+U", _image(to, state[to]))]
            case _:
                state[key] = rng.randrange(100)
                others += [("-U", before), ("+U", _image(key, state[key]))]
    return [*deletes, *others]


def _image(key: tuple[int | None, str | None], value: int) -> Image:
    return {"id": key[0], "p": key[1], "v": value}
