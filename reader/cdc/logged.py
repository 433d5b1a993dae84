"""Changes that the writer logged in `.cdc` log files (Hudi `HoodieCDCDataBlock`). Images that were not logged are
looked up.

The table's logging mode determines what is logged: key and operation, the old row too, or both rows. `logged_schema`
flattens the schema, `states` reads states.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, CorruptFile, InvariantViolation
from penstock.proto.model.changes import ChangeFormat, LoggedImages
from penstock.proto.model.files import SliceFiles
from penstock.reader.avro.decoder import AvroDecoder, record_bounds
from penstock.reader.cdc.base_rows import looked_up_bases
from penstock.reader.cdc.images import ChangeBatch, ChangeKind, Images, ImageStyle
from penstock.reader.cdc.logged_schema import (
    KEY,
    MARKERS,
    SIDES,
    Flat,
    LoggedSchema,
    is_stored_alike,
    parse_logged_schema,
    physical_record,
)
from penstock.reader.cdc.state_rows import state_rows
from penstock.reader.cdc.states import States, one_batch, states_style
from penstock.reader.log.file_bytes import LogFiles
from penstock.reader.merge.keys import number_keys
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.split.read_schema import ReadSchema
from penstock.reader.values.record_keys import RECORD_KEY, NoKey, key_maker
from penstock.table.log.blocks import BlockKind, BlockPlace, Damage, LogBlock, read_blocks
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import META_COLUMNS, OPERATION, AvroField, Primitive, RecordSchema

_PARTITION_PATH: Final = "_hoodie_partition_path"
_UNLOGGED: Final = {*META_COLUMNS, OPERATION}
_OPS: Final = {ord("i"): ChangeKind.INSERT, ord("u"): ChangeKind.UPDATE, ord("d"): ChangeKind.DELETE}
_ALL: Final = tuple(ChangeKind)
_DELETES: Final = (ChangeKind.DELETE,)
_OTHERS: Final = (ChangeKind.INSERT, ChangeKind.UPDATE)
_ADVICE: Final = "restore the file from a copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedChanges:
    """The logged changes of one step."""

    states: States
    """The states around the step."""
    source: LoggedImages
    """The logged files."""
    columns: tuple[str, ...]
    """The table's columns that images need."""
    format: ChangeFormat
    """The output format."""

    @property
    def schema(self) -> ReadSchema:
        """The table's columns to read."""
        return self.states.context.schema

    def batches(self) -> Iterator[ChangeBatch]:
        """Deletes of all blocks first; then the others in the order of the log, one batch per block. CorruptBlock and
        CorruptFile name the file and the problem."""
        files = self._files()
        try:
            blocks = self._all_blocks(files)
            for kinds in (_ALL,) if len(blocks) == 1 else (_DELETES, _OTHERS):
                for place, block in blocks:
                    yield self._block(files, place, block, kinds, again=len(blocks) > 1).batch()
        finally:
            files.release()

    def keys(self) -> Iterator[pa.Array]:
        """The record keys of the changes, if they are logged. Errors as for `batches`."""
        files = self._files()
        try:
            for place, block in self._all_blocks(files):
                decoding = self._block(files, place, block, _ALL)
                if decoding.schema.has_key and len(decoding.kinds):  # a commit may log no change
                    yield decoding.keys()
        finally:
            files.release()

    def _files(self) -> LogFiles:
        return LogFiles(self.states.context.storage, self.source.files, self.states.scan.table)

    def _all_blocks(self, files: LogFiles) -> list[tuple[int, LogBlock]]:
        """Each block of changes, with the index of its file."""
        return [(place, block) for place in range(len(self.source.files)) for block in self._blocks(files, place)]

    def _blocks(self, files: LogFiles, place: int) -> Iterator[LogBlock]:
        """The blocks of changes of one file."""
        path = self.source.files[place].path
        for block in read_blocks(files.data(place), f"table {self.states.scan.table}: {path}"):
            if isinstance(block, Damage):
                raise CorruptBlock(
                    f"{self.states.where}: bytes {block.start} to {block.end} of {path} are no log block "
                    f"({block.reason}): logged changes are lost; {_ADVICE}"
                )
            if block.kind is BlockKind.CDC_DATA:
                yield block

    def _block(
        self,
        files: LogFiles,
        number: int,
        block: LogBlock,
        chosen: Collection[ChangeKind],
        *,
        again: bool = False,
    ) -> _Decoding:
        data, path = files.data(number), self.source.files[number].path
        place = BlockPlace(self.states.scan.table, path, block.offset, block.header.instant_time)
        schema = parse_logged_schema(block.header.schema_json, str(place))
        compiled = self.states.context.options.by_kernels
        begin, end = record_bounds(data, place, block.content_start, block.content_end, compiled=compiled)
        kinds = _kinds(data, begin, end, schema, place)
        order = np.argsort(np.where(kinds == ChangeKind.DELETE, 0, 1), kind="stable")
        order = order[np.isin(kinds[order], list(chosen))]
        return _Decoding(self, schema, data, place, kinds[order], begin[order], end[order], again)


@dataclass(frozen=True, slots=True)
class _Decoding:
    """One block's records, in output order."""

    changes: LoggedChanges
    schema: LoggedSchema
    data: pa.Buffer
    place: BlockPlace
    kinds: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    again: bool
    """Whether other blocks look up rows in the same states."""

    def batch(self) -> ChangeBatch:
        """The changes."""
        logged = frozenset(side for side in MARKERS if self.schema.image(side) is not None)
        return ChangeBatch(self.kinds, self.side("before"), self.side("after"), logged)

    def side(self, side: str) -> Images | None:
        """The images of one side: as logged, or looked up in the state on that side."""
        absent = ChangeKind.INSERT if side == "before" else ChangeKind.DELETE
        has = self.kinds != absent
        if not has.any():
            return None
        if self.schema.image(side) is None:
            return self._from_state(side, has)
        if self.changes.format is ChangeFormat.HUDI:
            return self._as_stored(side)
        return self._as_rows(side, has)

    def _as_stored(self, side: str) -> Images:
        """The table's columns without the meta columns: stored values, converted if the table's type differs."""
        written, record = self._written(side), self.changes.schema.record
        fields = [field for field in record.fields if field.name not in _UNLOGGED]
        alike = [field.name for field in fields if is_stored_alike(written.get(field.name), field)]
        others = [field.name for field in fields if field.name not in alike]
        stored = physical_record(fields, str(self.place))
        columns: dict[str, pa.Array] = {}
        for names, target in ((alike, stored), (others, record)):
            if names:
                decoded = self._decoded(side, names, target, physical=target is stored)
                columns.update(zip(names, decoded.columns, strict=True))
        types = {**record.by_name(), **{name: stored.by_name()[name] for name in alike}}
        own = replace(record, fields=tuple(types[field.name] for field in fields))
        rows = pa.RecordBatch.from_arrays([columns[field.name] for field in fields], [field.name for field in fields])
        return Images(rows, own, ImageStyle.LOGGED)

    def _written(self, side: str) -> dict[str, AvroField]:
        """The logged columns, with the table's names."""
        names = self.changes.schema.file_names(self.changes.states.step.instant, str(self.place))
        image = self.schema.image(side)
        if image is None:
            raise InvariantViolation(f"{self.place}: no image {side!r} in the schema of logged changes")
        fields = image.fields if names is None else [names.in_table(field) for field in image.fields]
        return {field.name: field for field in fields}

    def _as_rows(self, side: str, has: np.ndarray) -> Images:
        """The table's columns; of the meta columns only key and partition."""
        read_schema, states = self.changes.schema, self.changes.states
        own = self._written(side)
        key_fields = self.changes.source.key_fields
        names = [name for name in (*self.changes.columns, *key_fields) if name in own]
        names = list(dict.fromkeys(names)) or [
            next(field.name for field in read_schema.record.fields if field.name in own)
        ]
        decoded = self._decoded(side, names, read_schema.record, physical=False)
        constants = PartitionConstants(states.scan, states.split, read_schema.table, self.changes.columns)
        rows = decoded.num_rows
        columns: list[pa.Array] = []
        for name in self.changes.columns:
            constant = constants.column(name, rows)
            if constant is not None:
                columns.append(constant)
            elif name == RECORD_KEY:
                columns.append(self._keys_of_columns(decoded, has) if key_fields else self.keys())
            elif name == _PARTITION_PATH:
                columns.append(pa.repeat(pa.scalar(states.split.partition), rows))
            elif name in decoded.schema.names:
                columns.append(decoded.column(name))
            else:
                columns.append(pa.nulls(rows, read_schema.table.field(name).type))
        table = pa.schema([read_schema.table.field(name) for name in self.changes.columns])
        return Images(pa.RecordBatch.from_arrays(columns, schema=table), read_schema.record)

    def _keys_of_columns(self, decoded: pa.RecordBatch, has: np.ndarray) -> pa.Array:
        """The record keys of the rows that exist."""
        try:
            maker = key_maker(self.changes.source.key_fields, self.changes.schema.record, str(self.place))
            keys = maker.keys(decoded.filter(pa.array(has)))
        except NoKey as error:
            raise CorruptBlock(f"{self.place}: a logged row {error}; {_ADVICE}") from None
        return keys.take(pa.array(np.cumsum(has) - 1, mask=~has))

    def _from_state(self, side: str, has: np.ndarray) -> Images:
        states = self.changes.states
        files: SliceFiles | None = self.changes.source.before if side == "before" else self.changes.source.after
        if not self.schema.has_key or files is None:
            raise CorruptFile(
                f"{self.place}: a change without {'key' if files else 'image'} although the table's logging mode "
                "requires one: the mode was changed since; use cdcFormat on a later range, or restore the mode"
            )
        changed_keys = self.keys().filter(pa.array(has))
        keys, numbers = number_keys([changed_keys], compiled=states.context.options.matching)
        columns = tuple(dict.fromkeys((*self.changes.columns, RECORD_KEY)))
        scan = states.before_scan(columns) if side == "before" else states.after_scan(columns)
        again = self.again or len(set(looked_up_bases(states.step))) < len(looked_up_bases(states.step))
        (found,) = state_rows(states, [(files, scan)], keys, again=again)
        matched = found.numbers
        first = np.full(keys.count, -1, np.int64)
        first[matched[::-1]] = np.arange(len(matched))[::-1]
        rows = first[numbers]
        if (rows < 0).any() or found.rows is None:
            lost = changed_keys[int(np.flatnonzero(rows < 0)[0])]
            raise CorruptFile(
                f"{self.place}: the change of key {str(lost)[:100]!r} has no row in the state {side} the commit: a "
                f"data file was replaced; {_ADVICE}"
            )
        places = np.zeros(len(has), np.int64)
        places[has] = rows
        style = states_style(states) if side == "before" else ImageStyle.ENGINE
        return Images(one_batch(found.rows.take(pa.array(places, mask=~has))), self.changes.schema.record, style)

    def keys(self) -> pa.Array:
        """The logged record key of each change."""
        target = RecordSchema("key", (AvroField(KEY, Primitive("string"), True, 0),), "")
        return self._decoded("", [KEY], target, physical=False).column(0)

    def _decoded(self, side: str, columns: Sequence[str], target: RecordSchema, *, physical: bool) -> pa.RecordBatch:
        """These columns of one side of every record; nulls if a record's kind has no such side."""
        read_schema, states = self.changes.schema, self.changes.states
        names = read_schema.file_names(states.step.instant, str(self.place))
        parts: list[pa.RecordBatch] = []
        places: list[np.ndarray] = []
        for kind in ChangeKind:
            mine = np.flatnonzero(self.kinds == kind)
            if not len(mine):
                continue
            places.append(mine)
            if side and side not in SIDES[kind]:
                types = target.by_name()
                absent = [pa.nulls(len(mine), arrow_type(types[name].type)) for name in columns]
                parts.append(pa.RecordBatch.from_arrays(absent, names=list(columns)))
                continue
            flat = self.schema.flat(kind, side, names, physical=physical)
            parts.extend(self._of_kind(flat, columns, target, mine))
        combined = pa.Table.from_batches(parts)
        return one_batch(combined.take(pa.array(np.argsort(np.concatenate(places), kind="stable"))))

    def _of_kind(
        self, flat: Flat, columns: Sequence[str], target: RecordSchema, mine: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        markers = [AvroField(name, Primitive("long")) for name in flat.branches]
        with_markers = replace(target, fields=(*target.fields, *markers))
        names = [*columns, *flat.branches]
        decoder = AvroDecoder(
            flat.writer,
            names,
            with_markers,
            compiled=self.changes.states.context.options.by_kernels,
            where=str(self.place),
        )
        for batch in decoder.decode(self.data, self.begin[mine], self.end[mine], self.place):
            for name, branch in flat.branches.items():
                if not (batch.column(name).to_numpy(zero_copy_only=False) == branch).all():
                    raise CorruptBlock(
                        f"{self.place}: a logged change has another image than its operation says; {_ADVICE}"
                    )
            yield batch.select(list(columns))


def _kinds(data: pa.Buffer, begin: np.ndarray, end: np.ndarray, schema: LoggedSchema, place: BlockPlace) -> np.ndarray:
    """The kind of each record: `op` is its first field, a union of null and a text of one letter."""
    view = np.frombuffer(data, np.uint8)
    if len(begin) and int((end - begin).min()) < 3:
        raise CorruptBlock(f"{place}: a logged change of less than 3 bytes; {_ADVICE}")
    branch = 2 * (1 - schema.fields[0].null_branch)
    letters = view[begin + 2]
    legal = (view[begin] == branch) & (view[begin + 1] == 2) & np.isin(letters, list(_OPS))
    if not legal.all():
        raise CorruptBlock(f"{place}: logged change {int(np.flatnonzero(~legal)[0])} is not i, u or d; {_ADVICE}")
    kinds = np.empty(len(begin), np.uint8)
    for letter, kind in _OPS.items():
        kinds[letters == letter] = kind
    return kinds
