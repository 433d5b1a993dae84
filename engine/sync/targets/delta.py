"""A folder of Delta tables as a target. Rows and positions are one commit of the table's log.

Each commit has an application transaction, whose version counts the writes of the sync, and in its commit info
the layout and the positions of all sources. Checkpoints keep the first; the second is read from the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType

from penstock.engine.sync.layout import LayoutChange, TargetLayout
from penstock.engine.sync.targets.delta_types import OPERATION, delta_type, names_problem, stored_columns
from penstock.engine.sync.targets.folders import folder_problem, table_uri
from penstock.engine.sync.targets.rows import (
    AlignedRows,
    aligned,
    key_text,
    layout_text,
    null_patterns,
    parsed_layout,
)
from penstock.engine.sync.targets.target import REPEATED, StoredTable, Write, check_base
from penstock.proto.errors import ConfigurationError, PenstockError, TargetConflict, TargetUnavailable
from penstock.table.storage.uris import redacted_uri

_APPLICATION: Final = "penstock"
_INFO: Final = "penstock.sync"
_EXACT_DIGITS: Final = 15
"""Of a decimal, in a double."""
_HISTORY: Final = (1, 20, 400, None)
"""How many commits are read, step by step, until one has the position; other programs may have committed after it."""
_TEMPORARY: Final = ("object store", "objectstore", "os error", "io error", "timed out", "connection", "no space left",
                     "permission denied", "generic s3")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """What a commit says about the sync."""

    number: int
    """The number of the write: the version of the application transaction."""
    layout: TargetLayout
    """The layout after it."""
    positions: Mapping[str, str]
    """The position of each source after it."""
    lost: str = ""
    """Why the log no longer has layout and positions; '': it has them."""


class DeltaTarget:
    """A `Target` in a folder or an object store, with one Delta table in a folder of its name for each table.

    A column is widened by a commit of its own before the write, with unchanged positions, which writes all rows again:
    Delta's log has one type for a column.
    """

    def __init__(self, place: str) -> None:
        """`place`: a local path, or the URI of an object store, whose credentials are in the environment."""
        self._place, self._name = place, f"delta://{redacted_uri(place)}"
        if "://" in place and "?" in place:
            raise ConfigurationError(
                f"target {self._name}: got a query string; options of the object store are environment variables "
                "(AWS_REGION, AWS_ENDPOINT_URL, …)"
            )

    def check_columns(self, table: str, columns: pa.Schema) -> None:
        """See `Target.check_columns`."""
        problem = folder_problem(table) or names_problem(columns)
        if problem:
            raise ConfigurationError(f"target {self._name}: table {table}: {problem}")

    def types_of(self, columns: pa.Schema) -> list[str]:
        """See `Target.types_of`."""
        return [delta_type(one.type) or "" for one in columns]

    def stored(self, table: str) -> StoredTable | None:
        """See `Target.stored`."""
        with self._errors(table):
            delta = self._opened(table)
            stored = delta and self._stored(table, delta)
        return StoredTable(layout=stored.layout, positions=stored.positions, lost=stored.lost) if stored else None

    def write(self, write: Write) -> None:
        """See `Target.write`."""
        rows = _Rows(write)
        with self._errors(write.table, rows):
            delta = self._opened(write.table)
            stored = self._stored(write.table, delta) if delta else None
            if (stored.positions.get(write.source) if stored else None) != write.expected:
                raise self._conflict(write.table)
            if stored and stored.lost and (not write.replaces or write.change.layout.source_column):
                raise ConfigurationError(f"{stored.lost}; load the table again (--restart)")
            check_base(write, stored.layout if stored else None, f"target {self._name}: table {write.table}")
            if delta and stored and not (stored.lost or write.replaces):
                self._check_types(write.table, delta, stored.layout.columns)
            try:
                self._commit(delta, stored, write, rows)
            except CommitFailedError as error:
                after = self._opened(write.table)
                if after is None or (stored and self._stored(write.table, after).positions == stored.positions):
                    raise TargetUnavailable(f"target {self._name}: table {write.table}: {_line(error)}") from error
                raise self._conflict(write.table) from error

    def repeated_key(self, table: str, source: str) -> str:
        """See `Target.repeated_key`."""
        with self._errors(table):
            delta = self._opened(table)
            if delta is None:
                return ""
            layout = self._stored(table, delta).layout
            names, column = layout.key, layout.source_column
            of_source = f"{_quoted(column)} = {_literal(source)}" if column else "true"
            sql = REPEATED.format(table="t", key=", ".join(map(_quoted, names)), rows=of_source)
            found = pa.RecordBatchReader.from_stream(QueryBuilder().register("t", delta).execute(sql)).read_all()
        return key_text(names, found.to_pylist()[0].values()) if found.num_rows else ""

    def close(self) -> None:
        """See `Target.close`."""

    def _commit(self, delta: DeltaTable | None, stored: _Stored | None, write: Write, rows: _Rows) -> None:
        change, layout = write.change, write.change.layout
        replaces_all = write.replaces and not layout.source_column
        others = stored.positions if stored and not replaces_all else {}
        positions = {**others, write.source: write.position}
        number = stored.number + 1 if stored else 1
        if delta is None or stored is None:
            uri = table_uri(self._place, write.table)
            write_deltalake(
                uri, rows.appended(), mode="error", commit_properties=_commit_info(number, layout, positions)
            )
            return
        if replaces_all:
            info = _commit_info(number, layout, positions)
            write_deltalake(delta, rows.appended(), mode="overwrite", schema_mode="overwrite", commit_properties=info)
            return
        if change.widened:
            self._widen(delta, write, stored)
            delta.update_incremental()
            number += 1
        info = _commit_info(number, layout, positions)
        if write.replaces:
            where = f"`{layout.source_column}` = {_literal(write.source_name)}"
            write_deltalake(
                delta, rows.appended(), mode="overwrite", predicate=where, schema_mode="merge", commit_properties=info
            )
            return
        removed = write.removed
        if removed is not None and removed.num_rows and _merged(delta, change, removed, rows, info):
            return
        mode: Literal["merge"] | None = "merge" if change.added else None
        write_deltalake(delta, rows.appended(), mode="append", schema_mode=mode, commit_properties=info)

    def _widen(self, delta: DeltaTable, write: Write, stored: _Stored) -> None:
        """Writes all rows with the new types, in a commit that changes no position."""
        columns = write.change.layout.columns
        old = pa.schema([columns.field(one.name) for one in stored.layout.columns])
        new = stored_columns(old)
        found = QueryBuilder().register("t", delta).execute("SELECT * FROM t")
        rows = AlignedRows(map(_plain, _beside(pa.RecordBatchReader.from_stream(found))), new)
        layout = TargetLayout(old, stored.layout.key, stored.layout.source_column)
        info = _commit_info(stored.number + 1, layout, stored.positions)
        try:
            batches = pa.RecordBatchReader.from_batches(new, iter(rows))
            write_deltalake(delta, batches, mode="overwrite", schema_mode="overwrite", commit_properties=info)
        except DeltaError:
            if rows.error is not None:
                raise rows.error from None
            raise

    def _opened(self, table: str) -> DeltaTable | None:
        if problem := folder_problem(table):
            raise ConfigurationError(f"target {self._name}: table {table}: {problem}")
        uri = table_uri(self._place, table)
        return DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None

    def _stored(self, table: str, delta: DeltaTable) -> _Stored:
        number = delta.transaction_version(_APPLICATION)
        if number is None:
            raise ConfigurationError(
                f"target {self._name}: table {table} exists, and no sync created it: drop it, or give `into`"
            )
        for limit in _HISTORY:
            for commit in delta.history(limit):
                if _INFO in commit:
                    return self._parsed(table, commit[_INFO], number)
                if commit.get("operation") == "RESTORE":
                    return self._lost(table, number, "the table was restored to an earlier version")
        return self._lost(table, number, "its log was cleaned")

    def _lost(self, table: str, number: int, reason: str) -> _Stored:
        text = (
            f"target {self._name}: table {table}: write {number} of the sync, which has the position, is gone: {reason}"
        )
        return _Stored(number=number, layout=TargetLayout(pa.schema([]), ()), positions={}, lost=text)

    def _parsed(self, table: str, text: str, number: int) -> _Stored:
        try:
            values = json.loads(text)
            stored = _Stored(
                number=values["number"], layout=parsed_layout(values["layout"]), positions=values["positions"]
            )
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise ConfigurationError(
                f"target {self._name}: table {table}: the commit of write {number} has no layout and positions of this "
                f"version: {error}"
            ) from error
        if stored.number != number:  # a commit between the read of the table and of its log
            raise TargetUnavailable(
                f"target {self._name}: table {table}: got write {stored.number} in the log, expected {number}: another "
                "process writes the table"
            )
        return stored

    def _check_types(self, table: str, delta: DeltaTable, columns: pa.Schema) -> None:
        """A merge into a table that lost a column would leave its values out."""
        actual = {one.name: one.type for one in delta.schema().fields}
        for one in columns:
            type_ = actual.get(one.name)
            if type_ is None or (isinstance(type_, PrimitiveType) and type_.type != delta_type(one.type)):
                raise ConfigurationError(
                    f"target {self._name}: table {table}: column {one.name} is "
                    f"{'missing' if type_ is None else type_.type}, the sync created it as {delta_type(one.type)}: "
                    "change it back, or load the table again (--restart)"
                )

    def _conflict(self, table: str) -> TargetConflict:
        return TargetConflict(
            f"target {self._name}: table {table}: the position is not the one that this sync stored: another process "
            "fills the table"
        )

    @contextmanager
    def _errors(self, table: str, rows: _Rows | None = None) -> Iterator[None]:
        """Errors of Delta Lake as those of a `Target`, and errors of the rows as themselves."""
        try:
            yield
        except PenstockError:
            raise
        except (DeltaError, OSError) as error:
            if rows is not None and rows.error is not None:
                raise rows.error from None
            text = f"target {self._name}: table {table}: {_line(error)}"
            is_temporary = isinstance(error, OSError) or any(one in text.lower() for one in _TEMPORARY)
            raise TargetUnavailable(text) if is_temporary else ConfigurationError(text) from error


class _Rows:
    """The rows of a write in the types of the files."""

    def __init__(self, write: Write) -> None:
        self.columns = stored_columns(write.change.layout.columns)
        self._rows = AlignedRows(write.rows, self.columns)

    @property
    def error(self) -> BaseException | None:
        """The error of the source."""
        return self._rows.error

    def appended(self) -> pa.RecordBatchReader:
        """The rows, read once."""
        return pa.RecordBatchReader.from_batches(self.columns, iter(self._rows))

    def merged(self, removed: pa.Table) -> pa.Table:
        """The removed keys (operation 1), and the rows (operation 0)."""
        keys = ((1, aligned(batch, self.columns)) for batch in removed.to_batches())
        batches = [*keys, *((0, batch) for batch in self._rows)]
        return pa.Table.from_batches(
            [
                batch.append_column(OPERATION, pa.array([number] * batch.num_rows, pa.int8()))
                for number, batch in batches
            ]
        )


def _quoted(name: str) -> str:
    """An identifier of DataFusion."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _merged(delta: DeltaTable, change: LayoutChange, removed: pa.Table, rows: _Rows, info: CommitProperties) -> bool:
    """Removes and appends in one commit; False: there was nothing to change, and there is no commit."""
    source, version = rows.merged(removed), delta.version()
    texts = frozenset().union(*null_patterns(removed)) | _out_of_range(removed)
    same = [_same(removed.schema.field(name), name in texts) for name in removed.column_names]
    merger = delta.merge(
        source,
        predicate=" AND ".join([f"s.`{OPERATION}` = 1", *same]),
        source_alias="s",
        target_alias="t",
        merge_schema=bool(change.added),
        streamed_exec=False,  # the keys' range then selects the files of the table that are read
        commit_properties=info,
    ).when_matched_delete()
    values = {f"`{name}`": f"s.`{name}`" for name in rows.columns.names}
    merger.when_not_matched_insert(values, predicate=f"s.`{OPERATION}` = 0").execute()
    return bool(delta.version() != version)


def _out_of_range(keys: pa.Table) -> frozenset[str]:
    """The columns with values that a file's range in the log may lack, so that the merge would not read the file: NaN,
    and decimals, whose range is rounded to doubles."""
    return frozenset(
        one.name
        for one in keys.schema
        if (pa.types.is_decimal(one.type) and one.type.precision > _EXACT_DIGITS)
        or (pa.types.is_floating(one.type) and pc.any(pc.is_nan(keys.column(one.name))).as_py())
    )


def _same(column: pa.Field, is_text: bool) -> str:
    """The condition that both sides have one key. `is_text`: texts are compared. A condition in which nulls are equal
    cannot be hashed."""
    if not is_text:
        return f"t.`{column.name}` = s.`{column.name}`"
    call = (
        "coalesce(encode({0}, 'hex'), '')" if pa.types.is_binary(column.type) else "coalesce(cast({0} AS varchar), '')"
    )
    left, right = f"t.`{column.name}`", f"s.`{column.name}`"
    return f"{call.format(left)} = {call.format(right)} AND ({left} IS NULL) = ({right} IS NULL)"


def _commit_info(number: int, layout: TargetLayout, positions: Mapping[str, str]) -> CommitProperties:
    """No retries: after a commit of another process the positions are compared again."""
    info: dict[str, Any] = {"number": number, "layout": layout_text(layout), "positions": dict(positions)}
    return CommitProperties(
        custom_metadata={_INFO: json.dumps(info)},
        app_transactions=[Transaction(app_id=_APPLICATION, version=number)],
        max_commit_retries=0,
    )


def _beside(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, each read in another thread: the library cannot be called in the one in which it reads rows."""
    iterator = iter(batches)
    with ThreadPoolExecutor(1) as pool:
        while (batch := pool.submit(next, iterator, None).result()) is not None:
            yield batch


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without views, which casts do not support."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    arrays = [array.cast(plain[array.type]) if array.type in plain else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
