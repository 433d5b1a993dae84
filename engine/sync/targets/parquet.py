"""A folder of Parquet files as a target: each write adds files, and then replaces the table's manifest.

The rows of a table are those of the manifest's `rows`, without those whose key is in one of its `removed` with a larger
`_write`. The manifest has the positions: rows and positions change together when it is replaced.
"""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.sync.fold import ends_of_runs
from penstock.engine.sync.targets.folders import folder_problem, table_uri
from penstock.engine.sync.targets.parquet_files import Files, LocalFiles, StoredFiles
from penstock.engine.sync.targets.parquet_manifest import (
    REMOVED,
    ROWS,
    WRITE_COLUMN,
    DataFile,
    Manifest,
    column_problem,
    combinable,
    manifest_text,
    parsed_manifest,
)
from penstock.engine.sync.targets.rows import AlignedRows, aligned, key_text
from penstock.engine.sync.targets.target import StoredTable, Write, check_base
from penstock.proto.errors import ConfigurationError, PenstockError, TargetConflict, TargetUnavailable
from penstock.table.storage.uris import redacted_uri, without_signature

_MANIFEST: Final = "manifest.json"
_IS_ROW: Final = "_is_row"


class ParquetTarget:
    """A `Target` in a folder or an object store, with a folder of its name for each table.

    In a local folder a lock of each table's folder keeps other processes from writing at the same time. An object store
    has no such lock: one process may fill it.
    """

    def __init__(self, place: str) -> None:
        """`place`: a local path, or the URI of an object store, whose credentials are in the environment."""
        self._place, self._name = place, f"parquet://{redacted_uri(place)}"
        self._cleaned: set[str] = set()

    def check_columns(self, table: str, columns: pa.Schema) -> None:
        """See `Target.check_columns`."""
        problem = folder_problem(table) or column_problem(columns)
        if problem:
            raise ConfigurationError(f"target {self._name}: table {table}: {problem}")

    def types_of(self, columns: pa.Schema) -> list[str]:
        """See `Target.types_of`. The types are those of Arrow, which each file has in its footer."""
        return [str(one.type) for one in columns]

    def stored(self, table: str) -> StoredTable | None:
        """See `Target.stored`."""
        with self._errors(table):
            manifest = self._manifest(table, self._files(table))
        return None if manifest is None else StoredTable(layout=manifest.layout, positions=manifest.positions)

    def write(self, write: Write) -> None:
        """See `Target.write`."""
        columns = write.change.layout.columns
        rows = AlignedRows(write.rows, columns)
        with self._errors(write.table, rows):
            files = self._files(write.table)
            with files.locked():
                before = self._manifest(write.table, files)
                if (before.positions.get(write.source) if before else None) != write.expected:
                    raise TargetConflict(
                        f"target {self._name}: table {write.table}: the position of source {write.source} is not the "
                        "one that this sync stored: another process fills the table"
                    )
                where = f"target {self._name}: table {write.table}"
                check_base(write, before.layout if before else None, where)
                if write.table not in self._cleaned:
                    _delete_orphans(files, before)
                    self._cleaned.add(write.table)
                after = _with_write(files, before, write, rows)
                files.replace(_MANIFEST, manifest_text(after).encode())
                if before is not None and after.obsolete != before.obsolete:
                    for path in before.obsolete:
                        files.delete(path)

    def repeated_key(self, table: str, source: str) -> str:
        """See `Target.repeated_key`. The keys of all rows are in memory."""
        with self._errors(table):
            files = self._files(table)
            manifest = self._manifest(table, files)
            return "" if manifest is None else _repeated_key(files, manifest, source)

    def close(self) -> None:
        """See `Target.close`."""

    def _files(self, table: str) -> Files:
        if problem := folder_problem(table):
            raise ConfigurationError(f"target {self._name}: table {table}: {problem}")
        if "://" in self._place:
            return StoredFiles(table_uri(self._place, table))
        return LocalFiles(pathlib.Path(self._place, table).absolute())

    def _manifest(self, table: str, files: Files) -> Manifest | None:
        text = files.read(_MANIFEST)
        if text is None:
            return None
        try:
            return parsed_manifest(text)
        except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
            raise ConfigurationError(
                f"target {self._name}: table {table}: {_MANIFEST} is not one of penstock sync: {error}"
            ) from error

    @contextmanager
    def _errors(self, table: str, rows: AlignedRows | None = None) -> Iterator[None]:
        """Errors of the storage as those of a `Target`, and errors of the rows as themselves."""
        try:
            yield
        except PenstockError:
            raise
        except (OSError, pa.ArrowException) as error:
            if rows is not None and rows.error is not None:
                raise
            detail = without_signature(str(error))
            text = f"target {self._name}: table {table}: {' '.join(detail.split())[:500]}"
            failure = TargetUnavailable(text) if isinstance(error, OSError) else ConfigurationError(text)
            cause = error if detail == str(error) else None
        else:
            return
        raise failure from cause  # after the block: otherwise the failure keeps the error as its context


def _repeated_key(files: Files, manifest: Manifest, source: str) -> str:
    """A key of a source with two rows after its last removal. Ordered by write, with removals before the rows of their
    write, they are the last two entries of the key."""
    names = manifest.layout.key
    entries: list[pa.Table] = []
    for listed, is_row in ((manifest.rows, True), (manifest.removed, False)):
        for one in listed:
            batches = [batch.select([*names, WRITE_COLUMN]) for batch in files.batches(one.file)]
            if batches:
                part = _with_large_offsets(pa.Table.from_batches(batches))
                if of := manifest.layout.source_column:
                    part = part.filter(pc.equal(part.column(of), source))
                entries.append(part.append_column(_IS_ROW, pa.repeat(is_row, part.num_rows)))
    if not entries:
        return ""
    joined = pa.concat_tables(entries)
    order = [(name, "ascending") for name in (*names, WRITE_COLUMN, _IS_ROW)]
    ordered = joined.take(pc.sort_indices(joined, sort_keys=order))
    keys = ordered.select(list(names))
    is_end, is_row = ends_of_runs(keys), ordered.column(_IS_ROW).combine_chunks()
    is_same_before = pc.invert(is_end.slice(0, len(is_end) - 1))
    are_two = pc.and_(pc.and_(is_row.slice(1), is_row.slice(0, len(is_row) - 1)), is_same_before)
    found = keys.slice(1).filter(pc.and_(are_two, is_end.slice(1))).slice(0, 1).to_pylist()
    return key_text(names, found[0].values()) if found else ""


def _with_large_offsets(keys: pa.Table) -> pa.Table:
    """The keys, of which all texts together may be larger than 2 GiB."""
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return keys.cast(pa.schema([one.with_type(large.get(one.type, one.type)) for one in keys.schema]))


def _with_write(files: Files, before: Manifest | None, write: Write, rows: Iterable[pa.RecordBatch]) -> Manifest:
    """Writes the files of a write. Returns the manifest with them."""
    layout = write.change.layout
    number = before.write + 1 if before else 1
    after = Manifest(write=number, layout=layout, positions={write.source: write.position}, rows=(), removed=())
    if before is not None:
        others = {} if write.replaces and not layout.source_column else before.positions
        positions = {**others, **after.positions}
        kept = replace(before, write=number, layout=layout, positions=positions, obsolete=())
        after = _dropped(kept, write) if write.replaces else kept
    is_first = before is None or write.replaces  # a query reads at least one file of each kind
    keys = pa.schema([layout.columns.field(name) for name in layout.key])
    removed = write.removed.to_batches() if write.removed is not None else []
    added = _new_file(files, write.source, ROWS, number, layout.columns, rows)
    deleted = _new_file(files, write.source, REMOVED, number, keys, (aligned(one, keys) for one in removed))
    after = replace(
        after,
        rows=(*after.rows, *_kept(files, added, is_first)),
        removed=(*after.removed, *_kept(files, deleted, is_first)),
    )
    after = _combined(files, after, bool(write.change.widened))
    return after if before is None or after.obsolete else replace(after, obsolete=before.obsolete)


def _dropped(manifest: Manifest, write: Write) -> Manifest:
    """The manifest without the files of the write's source; without a source column these are all files."""
    is_single = not write.change.layout.source_column
    gone = [one for one in (*manifest.rows, *manifest.removed) if is_single or one.source == write.source]
    return replace(
        manifest,
        rows=tuple(one for one in manifest.rows if one not in gone),
        removed=tuple(one for one in manifest.removed if one not in gone),
        obsolete=tuple(one.file for one in gone),
    )


def _combined(files: Files, manifest: Manifest, is_widened: bool) -> Manifest:
    """The manifest after many small files became one, and after a widened column was written again in all files."""
    columns = manifest.layout.columns
    kinds = {
        ROWS: (manifest.rows, columns),
        REMOVED: (manifest.removed, pa.schema([columns.field(name) for name in manifest.layout.key])),
    }
    obsolete: list[str] = []
    for kind, (listed, kept_columns) in kinds.items():
        for group in [[one] for one in listed] if is_widened else combinable(listed):
            batches = (batch for one in group for batch in files.batches(one.file))
            path = _path(kind, manifest.write)
            rows, size = files.write(
                path, _numbered(kept_columns), (aligned(one, _numbered(kept_columns)) for one in batches)
            )
            tier = max(one.tier for one in group) + (0 if is_widened else 1)
            combined = DataFile(path, group[0].source, rows, size, tier)
            listed = (*(one for one in listed if one not in group), combined)
            obsolete += [one.file for one in group]
        kinds[kind] = (listed, kept_columns)
    if not obsolete:
        return manifest
    # files of this very write that were combined at once are in no manifest: they are obsolete like the others
    return replace(manifest, rows=kinds[ROWS][0], removed=kinds[REMOVED][0], obsolete=(*manifest.obsolete, *obsolete))


def _new_file(
    files: Files, source: str, kind: str, number: int, columns: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> DataFile:
    path = _path(kind, number)
    numbered = (
        one.append_column(WRITE_COLUMN, pc.cast(pa.nulls(one.num_rows, pa.int64()).fill_null(number), pa.int64()))
        for one in batches
    )
    rows, size = files.write(path, _numbered(columns), numbered)
    return DataFile(path, source, rows, size)


def _kept(files: Files, file: DataFile, is_first: bool) -> tuple[DataFile, ...]:
    """The file, or () for one without rows, which is deleted."""
    if file.rows or is_first:
        return (file,)
    files.delete(file.file)
    return ()


def _numbered(columns: pa.Schema) -> pa.Schema:
    return columns.append(pa.field(WRITE_COLUMN, pa.int64()))


def _path(kind: str, number: int) -> str:
    return f"{kind}/{number:010d}-{uuid.uuid4().hex}.parquet"


def _delete_orphans(files: Files, manifest: Manifest | None) -> None:
    """Deletes the files that no manifest has, of writes that did not end."""
    known = {one.file for one in (*manifest.rows, *manifest.removed)} | {*manifest.obsolete} if manifest else set()
    for kind in (ROWS, REMOVED):
        for path in files.list(kind):
            if path not in known and path.endswith(".parquet"):
                files.delete(path)
