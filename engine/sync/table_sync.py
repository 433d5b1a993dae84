"""Keeps one table of a target equal to its source, one transaction at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from penstock.engine.sync.feed import NotReady, Round
from penstock.engine.sync.fold import last_changes
from penstock.engine.sync.job import SyncEntry
from penstock.engine.sync.layout import LayoutChange, TargetLayout, followed, layout_of
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.targets.rows import check_text_of_dates
from penstock.engine.sync.targets.target import StoredTable, Target, Write
from penstock.proto.errors import ConfigurationError, InvariantViolation, SchemaMismatch


class Feed(Protocol):
    """The rounds of a source: those of `feed`, `topics.feed` and `topics.table_then_topic`."""

    def layout(self, entry: SyncEntry) -> TargetLayout | None:
        """The layout of the target table for the columns of the source now; None: it has no schema yet."""
        ...

    def start(self) -> str:
        """The position before the first round."""
        ...

    def next_round(self, position: str) -> Round | None:
        """The round after a position; None: there is nothing new."""
        ...

    def batches(self, of: Round) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a round."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one transaction did."""

    rows: int = 0
    """Rows that were written or removed."""
    loaded: int = 0
    """During the first load, the splits of the snapshot in the target."""
    total: int = 0
    """During the first load, the splits of the snapshot; 0 after it."""
    order_key: str = ""
    """The order key of the newest instant in the target; '' while the first load lasts."""
    waits: bool = False
    """Whether nothing was done, because the source has not answered yet."""


class TableSync:
    """Keeps one table of a target equal to one source. One thread at a time.

    The target stores the position; this object keeps a copy of what it stored. After an error the object must not be
    used again: a new one starts from the target.
    """

    def __init__(self, source: SourceTable, feed: Feed, target: Target, *, restart: bool = False) -> None:
        """`restart`: the first step removes all rows of the source, and the table is loaded again."""
        self._source, self._feed, self._target, self._restart = source, feed, target, restart
        self._stored: StoredTable | None = None
        self._is_known = False

    @property
    def restarts(self) -> bool:
        """Whether the next transaction removes all rows of the source."""
        return self._restart

    def step(self) -> Step | None:
        """The next transaction; None: the target has everything that the source has now.

        Before the first commit of the source, which records its schema, there is no table in the target.
        """
        stored = self._position()
        try:
            if stored is None or self._restart:
                return self._begin(stored)
            following = self._feed.next_round(self._own(stored))
        except NotReady:
            return Step(waits=True)
        return None if following is None else self._apply(following, stored)

    def planned(self) -> TargetLayout:
        """The layout with which the table would be created, or continues. Nothing is written."""
        self._position()
        layout = self._layout() if self._stored is None or self._restart else self._stored.layout
        if layout is None:
            raise SchemaMismatch(f"table {self._source.name}: no commit has recorded a schema yet")
        self._target.check_columns(self._source.target_table, layout.columns)
        return layout

    def _layout(self) -> TargetLayout | None:
        while True:
            with suppress(NotReady):  # the feed waits, and ends with an error
                return self._feed.layout(self._source.entry)

    def _own(self, stored: str) -> str:
        """The position for the feed. With a source column, a line with the place of the source is before it."""
        source = self._source
        if not source.entry.source_column:
            return stored
        place, _, position = stored.rpartition("\n")
        if place != source.place:
            raise SchemaMismatch(
                f"table {source.target_table}: its rows of {source.name} are those of {place}: got {source.place}: "
                "correct the job, or load the table again (--restart)"
            )
        return position

    def _position(self) -> str | None:
        if not self._is_known or self._source.entry.source_column:  # other sources change the table's layout
            self._stored, self._is_known = self._target.stored(self._source.target_table), True
            self._check_lost()
        return None if self._stored is None else self._stored.positions.get(self._source.source)

    def _begin(self, expected: str | None) -> Step | None:
        """Creates the table, or adds a source to it, and stores the start of the snapshot."""
        table, layout = self._source.target_table, self._feed.layout(self._source.entry)
        if layout is None:
            return None
        change = LayoutChange(layout)
        if self._stored is not None and not (self._restart and not layout.source_column):
            change = self._followed_again(self._stored.layout, layout)
        if self._stored is not None and expected is None:
            self._check_new(self._stored, layout)
        self._target.check_columns(table, change.layout.columns)
        self._write(self._feed.start(), change, expected=expected, replaces=self._restart)
        self._restart = False
        return Step()

    def _followed_again(self, old: TargetLayout, new: TargetLayout) -> LayoutChange:
        """How the table's layout holds a new source, or one that is loaded again. The rows of other sources stay."""
        try:
            return followed(self._source.target_table, old, new)
        except SchemaMismatch as error:
            if not new.source_column:
                raise
            raise SchemaMismatch(
                f"{str(error).partition(': load the table again')[0]}: rows of other sources are in the table: remove "
                "it, and the sync loads all of its sources again, or give this source another `into`"
            ) from error

    def _check_lost(self) -> None:
        """A table whose positions are gone can only be loaded again, all of it."""
        lost = "" if self._stored is None else self._stored.lost
        if lost and self._source.entry.source_column:
            raise ConfigurationError(f"{lost}; remove the table: the sync loads all of its sources again")
        if lost and not self._restart:
            raise ConfigurationError(f"{lost}; load the table again (--restart)")

    def _check_new(self, stored: StoredTable, layout: TargetLayout) -> None:
        """A table without a source column has one source. In another table each source has one name."""
        source, place = self._source, self._source.place
        if layout.source_column:
            names = [name for name, text in stored.positions.items() if text.rpartition("\n")[0] == place]
            if names:
                raise SchemaMismatch(
                    f"table {source.target_table}: it has the rows of {place} with the name {names[0]}: got the name "
                    f"{source.name}: correct the job, or remove the table, which loads all of its sources again"
                )
        elif stored.positions and not self._restart:
            raise SchemaMismatch(
                f"table {source.target_table}: it is filled from {', '.join(stored.positions)}: got another "
                f"source, {place}; correct the job, or give another table (`into`)"
            )

    def _apply(self, following: Round, expected: str) -> Step:
        stored = self._stored
        if stored is None:
            raise InvariantViolation(f"table {self._source.target_table}: a round without a stored table")
        entry = self._source.entry
        own_key = entry.key or tuple(name for name in stored.layout.key if name != stored.layout.source_column)
        now = layout_of(following.columns, own_key, entry.source_column)
        change = followed(self._source.target_table, stored.layout, now)
        self._target.check_columns(self._source.target_table, change.layout.columns)
        if following.needs_unique_keys:
            self._check_unique()
        own = pa.schema([change.layout.columns.field(name) for name in now.columns.names])
        with closing(self._feed.batches(following)) as batches:
            named = self._named(batches)
            if following.in_snapshot:
                counted = _Counted(_cast(batch.select(own.names), own) for batch in named)
                self._write(following.position, change, expected=expected, rows=iter(counted))
                return self._done(following, counted.rows)
            folded = last_changes(named, stored.layout.key, own.names)
        removed, rows = None, None
        if folded is not None:  # with the types of the target's layout
            removed = _cast(folded.keys, pa.schema([own.field(name) for name in stored.layout.key]))
            rows = (_cast(batch, own) for batch in folded.rows)
        self._write(following.position, change, expected=expected, removed=removed, rows=rows)
        return self._done(following, 0 if removed is None else removed.num_rows)

    def _check_unique(self) -> None:
        repeated = self._target.repeated_key(self._source.target_table, self._source.name)
        if repeated:
            raise ConfigurationError(
                f"table {self._source.target_table}: several rows have the key {repeated}, and an event of the topic "
                "is one row: remove the duplicates in the source and load the table again (--restart), or leave "
                "out `then`"
            )

    def _done(self, following: Round, rows: int) -> Step:
        if following.in_snapshot and following.done < following.total:
            return Step(rows=rows, loaded=following.done, total=following.total)
        return Step(rows=rows, order_key=following.order_key)

    def _named(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with the source column, if the table has one."""
        column = self._source.entry.source_column
        for batch in batches:
            if column:
                yield batch.add_column(0, pa.field(column, pa.string()), pa.repeat(self._source.name, batch.num_rows))
            else:
                yield batch

    def _write(
        self,
        position: str,
        change: LayoutChange,
        *,
        expected: str | None,
        removed: pa.Table | None = None,
        rows: Iterator[pa.RecordBatch] | None = None,
        replaces: bool = False,
    ) -> None:
        source = self._source
        if source.entry.source_column:
            position = f"{source.place}\n{position}"
        self._target.write(
            Write(
                table=source.target_table,
                source=source.source,
                source_name=source.name,
                expected=expected,
                position=position,
                change=change,
                base=None if self._stored is None else self._stored.layout,
                removed=removed,
                rows=rows or iter(()),
                replaces=replaces,
            )
        )
        others = {} if self._stored is None else dict(self._stored.positions)
        self._stored = StoredTable(layout=change.layout, positions={**others, source.source: position})


_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def _cast(rows: _Rows, columns: pa.Schema) -> _Rows:
    """The rows with types that may be wider: those of another source of the same table."""
    if rows.schema.equals(columns):
        return rows
    for one in columns:
        check_text_of_dates(rows[one.name], one.type)
    return rows.cast(columns, safe=False)


class _Counted:
    """Batches, whose rows are counted while they pass."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches, self.rows = batches, 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch
